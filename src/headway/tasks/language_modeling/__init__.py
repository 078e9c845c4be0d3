"""Continue a text: language models, and models that talk, which learn from the replies of conversations."""
