"""What a probe looks at: a model and its codes, attention that passes through it, arrays, pairs of positions."""
