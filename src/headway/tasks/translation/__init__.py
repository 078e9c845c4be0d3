"""Write a text for a text: translation, summaries, answers."""
