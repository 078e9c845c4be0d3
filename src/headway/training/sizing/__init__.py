"""Rules that turn data, time and machine into sizes."""
