"""Hugging Face model directories and the hub: found, fetched, read and written."""
