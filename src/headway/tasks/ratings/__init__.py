"""A level on a scale for each text, such as one to five stars."""
