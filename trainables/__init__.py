"""What is trained: position encodings, the backbones they stand in, data, the training loop."""
