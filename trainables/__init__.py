"""What is trained: position encodings, a ViT, data, the training loop."""
