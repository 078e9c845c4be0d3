"""The three wirings of the one block, their configuration, heads, sizes and insides."""
