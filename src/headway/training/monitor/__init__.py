"""What a run shows while it trains: progress, health, losses that stand out."""
