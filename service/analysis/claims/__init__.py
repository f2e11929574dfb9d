"""Claims of papers, judged by what was measured. Computes only."""
