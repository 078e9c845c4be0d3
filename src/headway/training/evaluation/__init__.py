"""What an evaluation tells: intervals of metrics, and whether a model is better than a baseline."""
