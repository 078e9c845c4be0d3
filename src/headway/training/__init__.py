"""From a task and its data to a run directory: options, presets, the loop, checkpoints."""
