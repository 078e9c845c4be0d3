"""Name the label of a text."""
