"""From logits to tokens, over any model with a state."""
