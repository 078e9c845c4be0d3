"""OpenAI's routes: models, completions, chat completions and embeddings."""
