"""Predict the label of a text."""
