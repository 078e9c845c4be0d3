"""What a model is trained for: ``loss(model, batch) -> (sum, count)``, metrics, and the baselines to beat."""
