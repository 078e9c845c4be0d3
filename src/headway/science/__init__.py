"""Compare several runs, tune options and fit scaling laws."""
