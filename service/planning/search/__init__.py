"""What only a search needs: its sampler, what stops its trials early, and which of its paths matter."""
