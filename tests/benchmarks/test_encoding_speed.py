"""What an encoding costs: a training step of DeiT-S against the same shape without position.

Forward and backward of 8 images of 224 pixels, one thread, float32, on the CPU. Each model runs by the better of its
two attention paths (fused or explicit), found by a pilot; then 11 pairs are timed, one step of each in turn, either
first as often as the other, and the median of their ratios counts.
"""

import statistics
import time

import pytest
import torch

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import (
    IRPE,
    PEG,
    Fourier,
    Gabor,
    Learnable,
    LearnableSinusoidal,
    NoEncoding,
    RelativeBias,
    Sinusoidal,
)
from trainables.training.init import init_weights

pytestmark = [pytest.mark.benchmark, pytest.mark.usefixtures("one_thread")]

DEIT_S = ViT(embed_dim=384, depth=12, num_heads=6, patch_size=16)
SIZE, OUTPUTS, BATCH, PAIRS = (3, 224, 224), 1000, 8, 11

CODE = "its code once a step, then one addition to the tokens before the first block; bound by memory, 0.1 % of a step"
BIAS = "a lookup of H N^2 numbers a block, for all images, added to all logits; bound by memory: B H N^2 numbers a pass"
TERMS = "products with 50 buckets (a quarter of q.k's work), then B H N^2 numbers looked up; bound by memory"

CASES = {
    "learnable": (Learnable(), 1.02, CODE),
    "sinusoidal": (Sinusoidal(), 1.02, CODE),
    "learnable_sinusoidal": (LearnableSinusoidal(), 1.02, CODE),
    "fourier": (Fourier(), 1.02, CODE),
    "gabor": (Gabor(), 1.02, CODE),
    "peg": (PEG(places=(0,)), 1.06, "one depth-wise convolution of B D P numbers, channels last; bound by memory"),
    "relative_bias": (RelativeBias(), 1.15, BIAS),
    "irpe bias": (IRPE(mode="bias"), 1.15, BIAS),
    "irpe k": (IRPE(), 1.45, TERMS),
    "irpe q, k, v": (IRPE(on=("q", "k", "v")), 2.0, TERMS + "; on v the weights are summed by bucket, explicitly"),
}


def step_s(model: PositionedViT, images: torch.Tensor) -> float:
    """Seconds of one forward and backward pass."""
    begun = time.perf_counter()
    model.zero_grad()
    model(images).square().mean().backward()
    return time.perf_counter() - begun


def at_its_best(encoding, images: torch.Tensor) -> tuple[PositionedViT, str]:
    """The model, warm, by the better of its attention paths, and that path's name."""
    model = PositionedViT(DEIT_S, SIZE, OUTPUTS, encoding)
    init_weights(model, 0)

    def choose(fused: bool) -> None:
        for block in model.blocks:
            block.attn.fused_attn = fused

    seconds = {}
    for fused in (True, False):
        choose(fused)
        seconds[fused] = min(step_s(model, images) for _ in range(3))
    fused = seconds[True] <= seconds[False]
    choose(fused)
    return model, "fused" if fused and not model.encoding.reads_weights else "explicit"


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CASES)
def test_a_step_with_position(name, capsys):
    encoding, bar, how = CASES[name]
    images = torch.randn(BATCH, *SIZE, generator=torch.Generator().manual_seed(0))
    (plain, base_path), (model, path) = at_its_best(NoEncoding(), images), at_its_best(encoding, images)
    pairs = []
    for number in range(PAIRS):
        seconds = {timed: step_s(timed, images) for timed in ((model, plain) if number % 2 else (plain, model))}
        pairs.append((seconds[plain], seconds[model]))
    ratios = sorted(ours / base for base, ours in pairs)
    base, ours = (statistics.median(times) for times in zip(*pairs, strict=True))
    with capsys.disabled():
        print(f"\n{name}: {ours:.2f} s ({path}) to {base:.2f} s without ({base_path}), ratio {ratios[PAIRS // 2]:.3f}")
        print(f"  of {ratios[0]:.3f} to {ratios[-1]:.3f}, bar {bar}: {how}")
    assert statistics.median(ratios) <= bar
