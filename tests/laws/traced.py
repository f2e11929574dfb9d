"""Traces models, for test_compiled.py: in a process of its own, because the checks of shapes cannot be traced.

Prints, by name: the number of graphs, the breaks in them, and whether the compiled output is the model's own.
"""

import json
import sys
from collections.abc import Iterator

import torch
from torch import nn
from torch._dynamo.utils import counters

from tests.anchors.backbones import SPECS, ours, size, spread
from tests.laws.conftest import EXAMPLES, SIZE
from trainables.backbones import Size, ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import Learnable, NoEncoding
from trainables.training.init import init_weights
from trainables.training.optional.compiled import compiled, graphs

BESIDE_VIT = {"cait": Learnable(), "convit": Learnable(), "volo": Learnable(), "tnt": Learnable()}


def models(count: int | None) -> Iterator[tuple[str, nn.Module, Size]]:
    """The first examples of every encoding on a ViT, and every other backbone."""
    vit = ViT(embed_dim=16, depth=2, num_heads=2, patch_size=4, pool="token")
    for kind, some in EXAMPLES.items():
        for number, spec in enumerate(some[:count]):
            yield f"{kind}-{number}", PositionedViT(vit, SIZE, 3, spec), SIZE
    for kind in SPECS:
        yield kind, ours(kind, BESIDE_VIT.get(kind, NoEncoding())), size(kind)


def traced(model: nn.Module, size: Size) -> tuple[int, list[str], bool]:
    init_weights(model, 0)
    spread(model)
    images = torch.randn(3, *size, generator=torch.Generator().manual_seed(0))
    expected = model(images)
    found = compiled(model, backend="eager")(images)
    return graphs(), [*counters["graph_break"]], torch.equal(found, expected)


if __name__ == "__main__":
    count = None if sys.argv[1] == "all" else int(sys.argv[1])
    print(json.dumps({name: traced(model, size) for name, model, size in models(count)}))
