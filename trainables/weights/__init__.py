"""Weights that were learnt before: from files and from timm, resampled to other grids, tested at other sizes."""
