"""Configurations and weights from untrusted sources: opened within limits and checked before use."""
