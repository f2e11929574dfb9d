"""How fast images reach the model: JPEGs with DeiT's augmentation against timm's loader, and CIFAR's standard one."""

import os
import statistics
import time
from functools import partial

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from timm.data import create_dataset, create_transform

from tests.rooms.trainables.data import pictures
from trainables.backbones import ViT
from trainables.data import Cifar10
from trainables.data.augment import DeiT, Standard
from trainables.data.deit_torch import Changes
from trainables.data.splits_torch import Reading
from trainables.data.upright_rgb import opened
from trainables.recipe import AdamW, Recipe, Run
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training

pytestmark = [pytest.mark.benchmark, pytest.mark.usefixtures("one_thread")]

IMAGES, BATCH, ROUNDS = 512, 64, 5


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


@pytest.mark.timeout(900)
def test_deits_images_are_fed_twice_as_fast_as_by_timms_loader(tmp_path):
    """Images a second and core of the processes that decode; what is left is done to whole batches, on a GPU."""
    files = sorted((photographs(tmp_path / "set") / "train").rglob("*.jpg"))
    changes = Changes(DeiT(rand="rand-m9-inc1"), 0)  # with a deviation, timm asks Pillow 13 for what it refuses
    timms = create_dataset("", root=str(tmp_path / "set"), split="train")
    timms.transform = create_transform(
        224, is_training=True, auto_augment=changes.spec.rand, color_jitter=None, interpolation="bicubic",
        re_prob=changes.spec.erase, re_mode="pixel",
    )  # fmt: skip

    def seconds(function):
        begun = time.process_time()
        made = function()
        return time.process_time() - begun, made

    def ours(epoch):
        return [
            changes(opened(str(file), partial(Image.open, file)), (epoch, place, 0), 224)
            for place, file in enumerate(files)
        ]

    ratios = []
    for epoch in range(ROUNDS):
        mine, images = seconds(partial(ours, epoch))
        theirs, _ = seconds(lambda: [timms[place][0] for place in range(IMAGES)])
        pixels = torch.from_numpy(np.stack(images[:BATCH]))
        later, _ = seconds(partial(changes.batch, pixels, [(epoch, place, 0) for place in range(BATCH)]))
        ratios.append(theirs / mine)
        print(
            f"\n{IMAGES / mine:.0f} images/s and core, timm {IMAGES / theirs:.0f}; "
            f"on a CPU the batch takes {1000 * later / BATCH:.1f} ms an image more", end="",
        )  # fmt: skip
    print(f"\nmedian ratio {statistics.median(ratios):.2f}, bar 2; load {os.getloadavg()[0]:.1f}")
    assert statistics.median(ratios) >= 2


def test_standard_augmentation_takes_little_of_a_step(tmp_path, monkeypatch):
    """CIFAR-10 in memory: a gather of one batch; bound by memory. The step is that of the study cifar-baselines."""
    pictures.cifar(tmp_path, monkeypatch, "cifar10", train=2000, test=100)
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
