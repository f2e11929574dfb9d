"""What is trained: position encodings, the trunks they stand in, data, the training loop."""
