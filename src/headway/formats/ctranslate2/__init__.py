"""Directories of CTranslate2, and its engine."""
