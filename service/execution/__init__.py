"""Carries a study out: the driver, and the doors to Ray Tune and Ray Jobs."""
