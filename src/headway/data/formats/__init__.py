"""Formats of files: delimited tables, JSON Lines, Parquet, tagged tokens, and aligned files."""
