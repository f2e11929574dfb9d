"""Handwritten digits of 8 x 8 pixels: the 1,797 images that come with scikit-learn, split at random.

A small task with real images that needs no download. Position helps, but less than in the red-green tasks.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from trainables.data.digits import Digits
from trainables.rng_torch import stream_seed

MAX_VALUE = 16
"""The brightest gray value of the set."""


def arrays(spec: Digits) -> dict[str, tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    """Returns images and labels of train, validation and test. Each class has the same share of each, to one image.

    Shapes: images (N, 1, 8, 8), labels (N,). Units: gray values from 0 to 16.
    """
    images, labels = _all()
    order = np.arange(len(labels))
    splits = {}
    for name, count in (("test", spec.test_size), ("validation", spec.val_size), ("train", spec.train_size)):
        seed = stream_seed(spec.data_seed, "digits", name) % 2**32
        if count == len(order):
            taken = np.random.default_rng(seed).permutation(order)
        else:
            taken, order = train_test_split(order, train_size=count, stratify=labels[order], random_state=seed)
        splits[name] = (images[taken], labels[taken])
    return splits


def checksum() -> str:
    """Returns the SHA-256 of the installed images and labels, which must be `Digits.fingerprint`."""
    images, labels = _all()
    return hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()


def _all() -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    bunch = load_digits()
    return bunch.images.astype(np.uint8)[:, None], bunch.target.astype(np.int64)
