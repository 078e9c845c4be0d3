"""Scaling laws: a grid of runs, laws fitted to their losses, intervals, and the prediction of a larger run."""
