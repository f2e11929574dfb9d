"""The training loop and its parts: loss, optimizer, initial values, metrics, checkpoints, workers."""
