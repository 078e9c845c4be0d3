"""Directories of the Hugging Face hub, for transformers and sentence-transformers."""
