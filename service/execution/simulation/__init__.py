"""Simulates a study: its real driver, sampler and early stopping, with runs that train nothing."""
