"""The training loop and what it does at each step."""
