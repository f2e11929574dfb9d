"""Training against a hand-written loop over timm's own model: one thread, interleaved epochs, medians of 7 ratios.

The plain loop is what one would write: timm's VisionTransformer, all images in memory, fused AdamW, one-cycle rate,
clipped gradients. It has no position, or timm's table where ours is `learnable`; so a ratio also contains what the
encoding costs.
"""

import itertools
import statistics
import time
from collections.abc import Iterator
from contextlib import closing

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import cross_entropy

from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.data.red_green_torch import arrays
from trainables.encodings import IRPE, PEG, EncodingSpec, Fourier, Learnable, NoEncoding, RelativeBias
from trainables.recipe import AdamW, Recipe, Run
from trainables.training.loop import train

pytestmark = [pytest.mark.benchmark, pytest.mark.usefixtures("one_thread")]

IMAGES, BATCH, PAIRS = 1280, 64, 7

TOKEN = "keys and values of all tokens, and the patches' projection: bound by these two products"
CODE = TOKEN + "; the code is added to all tokens, once a step"
LOGITS = TOKEN + "; its terms of the one row that is read are small"
CASES = {
    "none": (NoEncoding(), 3.0, TOKEN),
    "learnable": (Learnable(), 3.0, CODE),
    "fourier": (Fourier(), 3.0, CODE),
    "peg": (PEG(), 3.0, TOKEN + ", and a depth-wise convolution of all patches"),
    "relative_bias": (RelativeBias(), 3.0, LOGITS),
    "irpe": (IRPE(), 2.0, LOGITS),
}


def plain_loop(model: ViT, data: RedGreen, table: bool) -> Iterator[float]:
    """Images a second of each epoch of the loop that one would write by hand for the same step."""
    images, labels = (torch.from_numpy(part) for part in arrays(data)["train"])
    plain = VisionTransformer(
        img_size=data.image_size, patch_size=model.patch_size, embed_dim=model.embed_dim, depth=model.depth,
        num_heads=model.num_heads, num_classes=2, pos_embed="learn" if table else "none",
        class_token=bool(model.prefix), global_pool="token" if model.prefix else "avg",
    )  # fmt: skip
    optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=(PAIRS + 2) * IMAGES // BATCH)
    plain.train()
    while True:
        begun, total = time.perf_counter(), 0.0
        for chosen in torch.randperm(len(images)).split(BATCH):
            loss = cross_entropy(plain(images[chosen].float() / 255), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        yield len(images) / (time.perf_counter() - begun)


def ratio(tmp_path, model: ViT, encoding: EncodingSpec, data: RedGreen) -> float:
    """Our images a second over the plain loop's, epoch by epoch in turn: the median; the first pair is not counted."""
    optimizer = AdamW(batch_size=BATCH, epochs=PAIRS + 2)
    run = Run(recipe=Recipe(data=data, model=model, encoding=encoding, optimizer=optimizer), seed=0)
    plain = plain_loop(model, data, isinstance(encoding, Learnable))
    with closing(train(run, tmp_path)) as epochs:
        ours = (measured.values["train/images_per_s"] for measured in epochs)
        pairs = list(itertools.islice(zip(ours, plain, strict=False), PAIRS + 1))[1:]
    mine, theirs = (statistics.median(speeds) for speeds in zip(*pairs, strict=True))
    found = statistics.median(our / their for our, their in pairs)
    print(f"\n{mine:.0f} images/s, {found:.2f} times the {theirs:.0f} of a plain loop")
    return found


@pytest.mark.parametrize("name", CASES)
def test_a_class_token_is_trained_without_what_nobody_reads(name, tmp_path):
    encoding, bar, bound = CASES[name]
    found = ratio(tmp_path, ViT(), encoding, RedGreen(train_size=IMAGES))
    print(f"{name}, bar {bar}: {bound}")
    assert found >= bar


def test_a_mean_over_patches_keeps_the_speed_of_a_plain_loop(tmp_path):
    """All tokens are read; bound by the products, which are timm's."""
    assert ratio(tmp_path, ViT(pool="avg"), NoEncoding(), RedGreen(train_size=IMAGES)) >= 1.0


@pytest.mark.timeout(900)
def test_a_deit_saves_most_of_its_last_block(tmp_path):
    """One of twelve blocks computes one row, after its keys and values; bound by the products of the other eleven."""
    deit = ViT(embed_dim=192, depth=12, num_heads=3, patch_size=8)
    assert ratio(tmp_path, deit, NoEncoding(), RedGreen(image_size=64, square=8, train_size=256)) >= 1.05
