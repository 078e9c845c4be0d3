"""A whole training run: set up, train, record the outcome, resume, continue."""
