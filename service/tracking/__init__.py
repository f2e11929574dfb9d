"""The door to MLflow."""
