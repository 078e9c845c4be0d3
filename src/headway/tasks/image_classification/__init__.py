"""Name the class of a picture."""
