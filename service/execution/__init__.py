"""Carries a study out: the driver, and the only files that import Ray Tune and Ray Jobs."""
