"""What to do next and how large: the schedule, the sampler, the placement, the estimate. Starts nothing."""
