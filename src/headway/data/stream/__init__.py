"""Parquet shards that are read during training: partitions of row groups, and batches of their windows."""
