"""Several label columns by one model: for each a class, several labels, a rating or a number."""
