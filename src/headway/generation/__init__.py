"""Decoding: from logits to tokens, for any model with a state that can be reordered."""
