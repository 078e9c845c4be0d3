"""Models of MLflow."""
