"""Pretrained weights: read from files and from timm, resampled to other grids, tested at other sizes of images."""
