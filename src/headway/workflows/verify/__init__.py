"""Whether a saved model keeps its promises: a file for each promise."""
