"""The engine: an objective and batches become a run directory.  It knows no task."""
