"""Runs set beside each other."""
