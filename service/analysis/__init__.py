"""What the numbers allow one to say: statistics, verdicts, results. Computes only."""
