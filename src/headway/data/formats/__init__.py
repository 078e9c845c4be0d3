"""Formats of files: tables and lines of several kinds, and aligned files."""
