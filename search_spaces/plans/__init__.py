"""How a study answers its question: by a search of a space, or by an ablation of arms, each of which may be tuned."""
