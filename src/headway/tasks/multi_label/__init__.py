"""Classification of texts with several labels each, or none."""
