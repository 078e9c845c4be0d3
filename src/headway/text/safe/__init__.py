"""Checks of tokenizer files from untrusted sources, made before the tokenizer is used."""
