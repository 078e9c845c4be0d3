"""A model written for other programs, and opened as their users open it."""
