"""What to do next and how large: the schedule, the sampler, the placement, the estimate. Starts nothing."""

SIMULATED = 8
"""How many runs of a simulation train together, if nobody says. It is here for the help text, which imports no more."""
