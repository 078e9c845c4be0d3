"""Predict the class of an image."""
