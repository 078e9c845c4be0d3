"""The tokenizer files of each model family that come without a ``tokenizer.json``."""
