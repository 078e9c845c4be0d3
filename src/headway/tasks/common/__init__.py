"""What several tasks share: objectives, metrics, baselines, encoding, and fitting to few rows."""
