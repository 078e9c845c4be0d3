"""Texts that come with Python, and synthetic pairs of texts."""
