"""The three wirings of the block, their configuration, heads, baselines, sizes, analysis and adaptation."""
