"""Vectors of texts, by which texts are compared."""
