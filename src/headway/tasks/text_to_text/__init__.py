"""Text to text: translation, summaries, answers."""
