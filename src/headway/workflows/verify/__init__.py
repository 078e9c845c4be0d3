"""Correctness checks of a saved model: one file per check."""
