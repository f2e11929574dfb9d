"""Small runs that train in a moment, and what is compared of them."""

import random
from itertools import islice

import numpy as np
import torch

from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.encodings import PEG, Composed, Fourier, Learnable, RelativeBias
from trainables.recipe import AdamW, DRLoc, Recipe, Run
from trainables.training.checkpoint import read
from trainables.training.loop import train

SMALL = Recipe(
    data=RedGreen(image_size=16, square=4, train_size=50, val_size=12, test_size=14),
    model=ViT(embed_dim=8, num_heads=2),
    encoding=Fourier(hidden=6),
    optimizer=AdamW(lr=0.01, epochs=4, batch_size=16),
)


def small(seed=0, **values):
    return Run(recipe=SMALL.put({path.replace("__", "."): value for path, value in values.items()}), seed=seed)


def numbers(measurements):
    """What does not depend on the clock."""
    kept = ("train/loss", "val/accuracy", "val/r2", "test/accuracy", "test/r2")
    return [(m.epoch, {name: m.values[name] for name in kept if name in m.values}) for m in measurements]


CLOCKED = {"time/epoch_s", "train/images_per_s", "memory/peak_gib"}
"""What no two runs share."""


def same(first, second):
    """Bitwise equality of whole checkpoints, the clock's numbers left out."""
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        kept = first.keys() - CLOCKED
        return kept == second.keys() - CLOCKED and all(same(first[name], second[name]) for name in kept)
    if isinstance(first, list):
        return len(first) == len(second) and all(same(*pair) for pair in zip(first, second, strict=True))
    return first == second


ENCODINGS = (Fourier(hidden=6), Composed(parts=(Learnable(), PEG(), RelativeBias())))

LOCALISED = {"encoding": PEG(padding="valid"), "auxiliary": DRLoc(pairs=5, hidden=12)}


def whole_if_it_goes_on(run, path, epochs=1, **options):
    """Trains a run whole, and one that is closed after some epochs: it must go on bit for bit. Returns the whole one.

    The global generators stay as they are, and what else happens to them does not matter.
    """
    before = torch.get_rng_state()
    whole = list(train(run, folder(path, "whole")))
    running = train(run, folder(path, "cut"))
    first = list(islice(running, epochs))
    running.close()
    assert torch.equal(torch.get_rng_state(), before)
    random.seed(epochs), np.random.seed(epochs), torch.manual_seed(epochs)
    again = list(train(run, path / "cut", **options))
    assert again[:epochs] == first
    assert numbers(again) == numbers(whole)
    for file in (path / "whole").iterdir():
        assert same(read(path / "cut" / file.name), read(file)), file.name
    return whole


def folder(path, name):
    (path / name).mkdir()
    return path / name
