"""Models behind HTTP: OpenAI's routes, a route for each task's verb, health, metrics and the playground."""
