"""Models behind HTTP: the routes of OpenAI, one for the verb of each task, health, metrics and the playground."""
