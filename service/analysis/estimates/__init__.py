"""Estimates beside means and differences: effect sizes, bootstrap intervals, power laws, rank correlations."""
