"""A number for each text, in its own unit."""
