"""How fast images reach the model: JPEGs with DeiT's augmentation against timm's loader, and CIFAR's standard one."""

import os
import statistics
import time

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from timm.data import create_dataset, create_loader

from tests.rooms.trainables.data import pictures
from trainables.backbones import ViT
from trainables.data import Cifar10, Folder
from trainables.data.augment import DeiT, Standard
from trainables.data.augment_torch import Augmentation
from trainables.data.splits_torch import Reading, Workers, load
from trainables.recipe import AdamW, Recipe, Run
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training

IMAGES, BATCH, WORKERS, ROUNDS = 512, 64, 2, 7


def photographs(root):
    """JPEGs of 320 x 256 pixels, smooth as photographs are, in 4 classes."""
    rng = np.random.default_rng(0)
    for split, count in (("train", IMAGES), ("val", 8)):
        for number in range(count):
            folder = root / split / f"class_{number % 4}"
            folder.mkdir(parents=True, exist_ok=True)
            noise = Image.fromarray(rng.integers(0, 255, (64, 80, 3), np.uint8)).resize((320, 256), Image.BICUBIC)
            noise.filter(ImageFilter.GaussianBlur(1)).save(folder / f"{number}.jpg", quality=90)
    return root


@pytest.mark.benchmark
@pytest.mark.timeout(900)
def test_deits_augmentation_is_as_fast_as_timms_loader(tmp_path):
    """The same number of processes; bound by Pillow: decoding, resizing and RandAugment. One epoch of each in turn."""
    root = photographs(tmp_path / "set")
    spec = DeiT(repeats=1, rand="rand-m9-inc1")  # with a deviation, timm asks Pillow 13 for what it refuses
    augmentation = Augmentation(spec, 0, IMAGES, 4)
    split = load(
        Folder(path=str(root), val_size=4), Reading(change=augmentation.change, workers=Workers(WORKERS))
    ).train
    timms = create_loader(
        create_dataset("", root=str(root), split="train"), (3, 224, 224), BATCH, is_training=True, no_aug=False,
        re_prob=spec.erase, re_mode="pixel", auto_augment=spec.rand, color_jitter=None, interpolation="bicubic",
        num_workers=WORKERS, use_prefetcher=False, persistent_workers=True,
    )  # fmt: skip

    def ours(epoch):
        numbers = torch.split(torch.randperm(len(split)), BATCH)
        copies = [torch.zeros_like(some) for some in numbers]
        return sum(len(images) for images, _ in split.batches(numbers, torch.float32, epoch, copies))

    def theirs(epoch):
        return sum(len(images) for images, _ in timms)

    ratios = []
    for epoch in range(ROUNDS + 1):
        speeds = []
        for feed in (ours, theirs):
            begun = time.perf_counter()
            count = feed(epoch)
            speeds.append(count / (time.perf_counter() - begun))
        ratios += [speeds[0] / speeds[1]] if epoch else []  # the first epoch starts the processes
        print(f"\n{speeds[0]:.0f} images/s, timm {speeds[1]:.0f}", end="")
    print(f"\nmedian ratio {statistics.median(ratios):.3f}, bar 0.95; load {os.getloadavg()[0]:.1f}")
    assert statistics.median(ratios) >= 0.95


@pytest.mark.benchmark
def test_standard_augmentation_takes_little_of_a_step(tmp_path, monkeypatch):
    """CIFAR-10 in memory: a gather of one batch; bound by memory. The step is that of the study cifar-baselines."""
    pictures.cifar(tmp_path, monkeypatch, "cifar10", train=2000, test=100)
    torch.set_num_threads(1)
    recipe = Recipe(data=Cifar10(), model=ViT(depth=4), optimizer=AdamW(epochs=100, batch_size=100), augment=Standard())
    training = Training(Run(recipe, 0), "cpu", {}, SINGLE, Reading(tmp_path))
    spent = [0.0]

    def clocked(function):
        def call(*args):
            begun = time.perf_counter()
            found = function(*args)
            spent[0] += time.perf_counter() - begun
            return found

        return call

    training.augmentation.batch = clocked(training.augmentation.batch)
    split = training.splits.train
    object.__setattr__(split, "batch", clocked(split.batch))
    training.learn(1)
    spent[0] = 0.0
    shares = []
    for epoch in range(2, 5):
        before = spent[0]
        seconds = training.learn(epoch)["time/epoch_s"]
        shares.append((spent[0] - before) / seconds)
    print(f"\ndata: {100 * statistics.median(shares):.2f} % of a step, bar 3 %; load {os.getloadavg()[0]:.1f}")
    assert statistics.median(shares) <= 0.03
