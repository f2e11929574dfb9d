"""A user's file with a data set: a class of pictures, and one of numbers; and one whose images lie in a file."""

from pathlib import Path

from search_spaces.study import Ablation, Edition, Study
from trainables.own import carry
from trainables.recipe import Recipe

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

READ = """
import hashlib
from pathlib import Path
from typing import ClassVar

import numpy as np

from trainables.data import DatasetSpec

FILE = Path("{file}")


class Read(DatasetSpec):
    kind: str = "read.py:Read"
    image_counts: ClassVar = (20, 10, 10)
    size: ClassVar = (1, 16, 16)
    outputs: ClassVar = 2
    metric: ClassVar = "accuracy"

    @property
    def fingerprint(self):
        return hashlib.sha256(FILE.read_bytes()).hexdigest()[:8]

    def arrays(self):
        rng = np.random.default_rng(int(FILE.read_text()))
        counts = zip(("train", "validation", "test"), self.image_counts)
        return {{name: (rng.integers(0, 255, (n, *self.size), np.uint8), np.arange(n) % 2) for name, n in counts}}
"""
"""The images follow from the number in a file."""


def reading(file: Path, images: int = 1) -> Recipe:
    """A recipe whose images lie in a file."""
    file.write_text(str(images))
    values = {"data.kind": "read.py:Read", "data.source": READ.format(file=file), "model.patch_size": 4}
    return Recipe().put({**carry(values), "model.embed_dim": 8, "model.num_heads": 2, "optimizer.epochs": 2})


def reading_arms(file: Path) -> Edition:
    """A study of two arms whose images lie in a file."""
    plan = Ablation(arms={"none": {}, "sines": {"encoding.kind": "sinusoidal"}}, baseline="none")
    return Study(name="read", question="Which?", base=reading(file), plan=plan, seeds=1).at()
