"""Estimates beside means and differences: power, power laws, rank correlations."""
