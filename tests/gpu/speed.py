"""Training speed on a GPU: ViT-S/16 at 224 pixels beside the loop that one writes with timm, images on the GPU.

A program of its own, because shapes are checked under pytest, which torch cannot compile. `python -m tests.gpu.speed`
prints a line for each precision, `python -m tests.gpu.speed encodings` one for each encoding, and
`python -m tests.gpu.speed packs` the images a second of small runs as one model, flipped and shifted, compiled or not;
without a GPU of two of them.
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import timm
import torch
from timm.optim import create_optimizer_v2
from torch.nn.functional import cross_entropy

from search_spaces.library import find
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.data.splits_torch import Reading
from trainables.encodings import IRPE, PEG, Fourier, Learnable, RelativeBias, Rotary
from trainables.launch.job import Job
from trainables.launch.worker import member_of
from trainables.recipe import AdamW, Recipe, Run
from trainables.recipe.revisions import code_of
from trainables.training.loop import Training
from trainables.training.optional import compiled as compilation
from trainables.training.optional.fused import train_together
from trainables.training.optional.out_of_memory import free_memory
from trainables.training.runtime import runtime

BATCH, STEPS, EPOCHS = 256, 8, 3
VIT_S = ViT(patch_size=16, embed_dim=384, depth=12, num_heads=6)
"""ViT-S/16."""
DATA = RedGreen(image_size=224, square=32, train_size=BATCH * STEPS, val_size=8, test_size=8)


def ours(encoding, precision, compiled, model=VIT_S):
    """Images a second of our training, and the memory of its tensors: the fastest of some epochs after the first."""
    free_memory()
    torch.cuda.reset_peak_memory_stats()
    optimizer = AdamW(epochs=EPOCHS + 1, batch_size=BATCH, precision=precision)
    run = Run(recipe=Recipe(data=DATA, model=model, encoding=encoding, optimizer=optimizer), seed=0)
    job = Job(run=run, code=code_of(run.recipe), label="0", attempt=1, folder=".", compile=compiled)
    with runtime(1, precision):
        training = Training(run, "cuda", {}, member_of(job), Reading())
        speeds = [training.learn(epoch + 1)["train/images_per_s"] for epoch in range(EPOCHS + 1)]
    return max(speeds[1:]), torch.cuda.max_memory_allocated() / 2**30


def timms(precision, compiled, images):
    """Images a second of timm's ViT with its own optimizer, as its train.py computes a step."""
    free_memory()
    torch.backends.cuda.matmul.fp32_precision = "tf32" if precision == "tf32" else "ieee"
    model = timm.create_model("vit_small_patch16_224", num_classes=2).cuda().train()
    optimizer = create_optimizer_v2(model, "adamw", lr=1e-3, weight_decay=0.05)
    model = torch.compile(model) if compiled else model
    labels = torch.zeros(len(images), dtype=torch.int64, device="cuda")
    half = torch.autocast("cuda", torch.bfloat16, enabled=precision == "bfloat16")
    speeds = []
    for _ in range(EPOCHS + 1):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for chosen in torch.randperm(len(images), device="cuda").split(BATCH):
            with half:
                loss = cross_entropy(model(images[chosen].float().div_(255).sub_(0.5).div_(0.5)), labels[chosen])
            optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
        torch.cuda.synchronize()
        speeds.append(len(images) / (time.perf_counter() - begun))
    torch.backends.cuda.matmul.fp32_precision = "none"
    return max(speeds[1:])


def beside_timm():
    images = torch.randint(0, 255, (BATCH * STEPS, 3, 224, 224), dtype=torch.uint8, device="cuda")
    print(f"{torch.cuda.get_device_name()}, ViT-S/16 at 224, batches of {BATCH}")
    for precision, compiled in (("float32", False), ("tf32", False), ("bfloat16", False), ("bfloat16", True)):
        mine, gib = ours(Learnable(), precision, compiled)
        theirs = timms(precision, compiled, images)
        print(f"{precision}{' compiled' * compiled}: {mine:.0f} images/s ({gib:.1f} GiB), timm {theirs:.0f}, "
              f"ratio {mine / theirs:.2f}", flush=True)  # fmt: skip


def encodings():
    """What an encoding costs on a GPU, in bfloat16, compiled and not."""
    for encoding in (Learnable(), Fourier(), Rotary(), RelativeBias(), IRPE(), PEG()):
        for compiled in (False, True):
            speed, gib = ours(encoding, "bfloat16", compiled)
            print(f"{encoding.kind}{' compiled' * compiled}: {speed:.0f} images/s, {gib:.1f} GiB", flush=True)


def packs():
    """The small ViT of `cifar-encodings` with rotary positions, in a pack of 15 seeds; a GPU has more images."""
    device, seeds, count = ("cuda", 15, 50_000) if torch.cuda.is_available() else ("cpu", 2, 256)
    random = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as root, runtime(1, "tf32" if device == "cuda" else "float32"):
        images = random.integers(0, 256, (count, 32, 32, 3), np.uint8)
        np.savez(f"{root}/images.npz", images=images, labels=np.arange(count) % 10)
        data = {"kind": "arrays", "path": f"{root}/images.npz", "val_size": 10, "test_size": 10}
        more = {"data": data, "augment.kind": "standard", "optimizer.epochs": 3}
        recipe = find("cifar-encodings").base.put({**more, "encoding.kind": "rotary"})
        runs = [Run(recipe=recipe, seed=seed) for seed in range(seeds)]
        for label, wrap in {"": {}, " compiled": {"wrap": compilation.compiled}}.items():
            folders = [Path(root, label.strip() or "eager", str(seed)) for seed in range(seeds)]
            for folder in folders:
                folder.mkdir(parents=True)
            told = [outcomes[0].values for outcomes in train_together(runs, folders, device, **wrap)]
            speed = max(values["train/images_per_s"] for values in told[1:]) * seeds
            print(f"{seeds} runs as one{label}, {device}: {speed:,.0f} images/s in all", flush=True)


if __name__ == "__main__":
    {"encodings": encodings, "packs": packs}.get(" ".join(sys.argv[1:]), beside_timm)()
