"""Copies of a study at a place that outlives this machine's disk: journal, answers, weights, and work in progress."""
