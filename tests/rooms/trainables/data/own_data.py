"""A user's file with a data set: a class of pictures, and one of numbers."""

SHAPES = '''
from typing import ClassVar

import numpy as np
from pydantic import Field

from trainables.data import DatasetSpec


class Shapes(DatasetSpec):
    """A disk or a square, somewhere in the middle."""

    kind: str = Field(default="mine.py:Shapes", init=False)
    radius: int = Field(default=3, gt=0, le=6, description="a radius from 1 to 6 pixels")
    train_size: int = 48
    val_size: int = 14
    test_size: int = 12

    size: ClassVar = (1, 16, 12)
    outputs: ClassVar = 2
    metric: ClassVar = "accuracy"

    def arrays(self):
        rng = np.random.default_rng(0)
        return dict(zip(("train", "validation", "test"), (self.draw(rng, count) for count in self.image_counts)))

    def draw(self, rng, count):
        labels = rng.permutation(np.arange(count) % 2)
        middle = rng.integers(5, 8, (2, count, 1, 1))
        rows, columns = np.abs(np.indices((16, 12))[:, None] - middle)
        square, disk = np.maximum(rows, columns) <= self.radius, rows**2 + columns**2 <= self.radius**2
        return np.uint8(255) * np.where(labels[:, None, None] == 1, square, disk)[:, None], labels


class Places(Shapes):
    """Where the middle is: two numbers."""

    kind: str = Field(default="mine.py:Places", init=False)
    metric: ClassVar = "r2"

    def draw(self, rng, count):
        places = rng.integers(5, 8, (count, 2))
        rows, columns = np.abs(np.indices((16, 12))[:, None] - places.T[:, :, None, None])
        return np.uint8(255) * (np.maximum(rows, columns) <= self.radius)[:, None], places / 16
'''
