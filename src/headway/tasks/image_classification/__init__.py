"""Name the class of an image."""
