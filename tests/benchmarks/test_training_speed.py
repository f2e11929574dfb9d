"""The training loop against a hand-written one over timm's own model: one thread, interleaved pairs, medians."""

import itertools
import statistics
import time

import pytest
import torch
from timm.models.vision_transformer import VisionTransformer
from torch.nn.functional import cross_entropy

from trainables.data import RedGreen
from trainables.data.red_green_torch import arrays
from trainables.recipe import AdamW, Recipe, Run
from trainables.training.loop import train

IMAGES, BATCH, PAIRS = 1280, 64, 9


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def plain_loop():
    """Images a second of each epoch of the loop that one would write by hand for the same step."""
    images, labels = (torch.from_numpy(part) for part in arrays(RedGreen(train_size=IMAGES))["train"])
    model = VisionTransformer(
        img_size=32, patch_size=4, embed_dim=64, depth=1, num_heads=4, num_classes=2, pos_embed="none"
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05, fused=True)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=(PAIRS + 2) * IMAGES // BATCH)
    model.train()
    while True:
        begun, total = time.perf_counter(), 0.0
        for chosen in torch.randperm(IMAGES).split(BATCH):
            loss = cross_entropy(model(images[chosen].float() / 255), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            total += loss.item()
        yield IMAGES / (time.perf_counter() - begun)


@pytest.mark.benchmark
def test_the_loop_keeps_the_speed_of_a_plain_one(tmp_path):
    recipe = Recipe(data=RedGreen(train_size=IMAGES), optimizer=AdamW(batch_size=BATCH, epochs=PAIRS + 2))
    ours = (measured.values["train/images_per_s"] for measured in train(Run(recipe=recipe, seed=0), tmp_path))
    pairs = list(itertools.islice(zip(ours, plain_loop(), strict=False), PAIRS + 1))[1:]
    ratio = statistics.median(mine / plain for mine, plain in pairs)
    print(f"{statistics.median(mine for mine, _ in pairs):.0f} images/s, {ratio:.3f} of a plain loop")
    assert ratio >= 0.97
