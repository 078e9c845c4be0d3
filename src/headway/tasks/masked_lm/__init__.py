"""Fill in masked tokens."""
