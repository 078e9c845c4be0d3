"""What a run keeps on disk: run directory, checkpoints, log."""
