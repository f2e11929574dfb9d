"""What a study's numbers show: statistics, verdicts, results. Computes only."""
