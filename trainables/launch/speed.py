"""Measures a machine with a GPU: how many images it learns from in a second, and how many its cores decode for it."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from trainables.backbones import ViT
from trainables.data import Folder, RedGreen
from trainables.data.augment import DeiT
from trainables.data.augment_torch import Augmentation
from trainables.data.splits_torch import Reading, Workers, load
from trainables.encodings import Learnable
from trainables.recipe import AdamW, Recipe, Run
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training
from trainables.training.runtime import peak_gib, release_memory, runtime

SIDE, BATCH, STEPS = 224, 128, 16
PHOTOGRAPH = (500, 375)
"""The usual size of an image of ImageNet. Units: pixels."""
PHOTOGRAPHS = 64

VIT_S = ViT(patch_size=16, embed_dim=384, depth=12, num_heads=6)
"""ViT-S/16."""


def training_speed(device: str, model: ViT = VIT_S, side: int = SIDE, batch: int = BATCH) -> tuple[float, float]:
    """Returns images a second of a training in bfloat16, its images in the GPU's memory, and the GiB that it fills.

    An epoch of 16 steps is not counted, and the next one is.
    """
    data = RedGreen(image_size=side, square=side // 8, train_size=batch * STEPS, val_size=8, test_size=8)
    optimizer = AdamW(epochs=2, batch_size=batch, precision="bfloat16")
    recipe = Recipe(data=data, model=model, encoding=Learnable(), optimizer=optimizer)
    with runtime(1, "bfloat16"):
        training = Training(Run(recipe=recipe, seed=0), device, {}, SINGLE, Reading())
        training.learn(1)
        speed = training.learn(2)["train/images_per_s"]
        gib = peak_gib(training.device)
    del training
    release_memory()
    return speed, gib


def decoding_speed(workers: int, device: str = "cpu", seconds: float = 5.0, side: int = SIDE) -> float:
    """Returns images a second that so many processes decode from JPEG, and that come to a device changed as DeiT does.

    The first images, for which the processes start, are not counted.
    """
    with tempfile.TemporaryDirectory() as folder, closing(Workers(workers)) as processes:
        rng = np.random.default_rng(0)
        for number in range(PHOTOGRAPHS):  # smooth as photographs are
            file = Path(folder) / "train" / f"class_{number % 2}" / f"{number}.jpg"
            file.parent.mkdir(parents=True, exist_ok=True)
            coarse = Image.fromarray(rng.integers(0, 255, (47, 63, 3), np.uint8))
            coarse.resize(PHOTOGRAPH, Image.Resampling.BICUBIC).save(file, quality=90)
        augmentation = Augmentation(DeiT(repeats=1), 0, PHOTOGRAPHS, 2)
        spec = Folder(path=folder, image_size=side, val_size=4, test_size=4)
        split = load(spec, Reading(change=augmentation.change, workers=processes)).to(device).train
        numbers = [torch.arange(64) % len(split) for _ in range(1000)]
        batches = split.batches(numbers, torch.float32, 1)
        for _ in range(2 * max(workers, 1)):
            next(batches)
        begun, count = time.perf_counter(), 0
        while time.perf_counter() - begun < seconds:
            count += len(next(batches)[1])
        return count / (time.perf_counter() - begun)
