"""Data is found, fetched, opened and recognised: paths, encodings, and facts about columns."""
