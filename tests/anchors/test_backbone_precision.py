"""Under bfloat16 all arms of an ablation add up their blocks in one precision: the residual stream is float32."""

import pytest
import torch

from tests.anchors.backbones import HOSTS, TABLES, ours, size
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.encodings import (  # fmt: skip
    IRPE,
    PEG,
    Add,
    Concat,
    Fourier,
    Learnable,
    NoEncoding,
    RelativeBias,
    Sinusoidal,
)
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.training.init import init_weights

QUERY_KEY = Learnable(injection=Add(places=("query", "key")))
ARMS = [NoEncoding(), Learnable(), Sinusoidal(), Fourier(), PEG(), PEG(padding="valid"), RelativeBias(), IRPE()]
ARMS += [Fourier(injection=Concat()), QUERY_KEY]
BLOCK_NORMS = ("norm1", "norm2", "norm_in", "norm_mlp_in", "norm_out", "norm_mlp")


def not_in_float32(model, images):
    """The norms of blocks and the heads that see another type under autocast; the outputs, if they have another."""
    seen = set()
    for name, module in model.named_modules():
        if name.rpartition(".")[2] in BLOCK_NORMS or name in ("norm", "head", "fc_norm", "head.fc"):
            module.register_forward_pre_hook(lambda _, inputs, name=name: seen.add((name, inputs[0].dtype)))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        outputs = model.train()(images)
    assert len(seen) > 2
    return {name for name, dtype in {*seen, ("outputs", outputs.dtype)} if dtype != torch.float32}


@pytest.mark.parametrize("pool", ["token", "avg", "gap"])
@pytest.mark.parametrize("encoding", ARMS, ids=lambda encoding: encoding.label)
def test_every_encoding(encoding, pool):
    spec = ViT(embed_dim=16, num_heads=2, depth=2, patch_size=4, pool=pool)
    model = build_model(Recipe(data=RedGreen(image_size=16), model=spec, encoding=encoding))
    init_weights(model, 0)
    assert not_in_float32(model, torch.rand(2, 3, 16, 16)) == set()


@pytest.mark.parametrize("kind", HOSTS)
def test_every_backbone(kind):
    for encoding in (NoEncoding(), Learnable() if kind in TABLES else PEG()):
        assert not_in_float32(ours(kind, encoding), torch.rand(2, *size(kind))) == set()


@pytest.mark.parametrize("kind", HOSTS)
def test_float64_stays(kind):
    model = ours(kind, NoEncoding()).double()
    assert model(torch.rand(2, *size(kind), dtype=torch.float64)).dtype == torch.float64
