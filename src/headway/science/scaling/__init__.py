"""Scaling laws: a grid of runs, laws fitted to their losses, intervals, and a larger run foretold and compared."""
