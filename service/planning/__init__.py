"""Decides what a study does next and what it will take: schedule, sampler, placement, estimate. It starts nothing."""
