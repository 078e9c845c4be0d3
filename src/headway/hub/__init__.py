"""Hugging Face directories, read and written."""
