"""Records become batches: encoded arrays on disk, windows over running text, and batching by length."""
