"""Evaluating metrics: their intervals, and whether a model is better than a baseline."""
