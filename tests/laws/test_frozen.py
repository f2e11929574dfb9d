"""A frozen convolution stays as it starts: at random, or as a parent's run learnt it."""

import pytest
import torch
from torch.nn.functional import cross_entropy

from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.encodings import IRPE, PEG, Composed, Learnable
from trainables.recipe import FromTrial, Recipe
from trainables.training.checkpoint import write
from trainables.training.loop import build_model_with_weights
from trainables.training.optimizer import build_optimizer
from trainables.training.parameters import no_decay


def recipe(encoding, **values):
    return Recipe(
        data=RedGreen(image_size=16), model=ViT(embed_dim=16, depth=2, num_heads=2), encoding=encoding, **values
    )


def step(model, spec):
    images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    optimizer = build_optimizer(model, spec.optimizer, no_decay(model))
    cross_entropy(model(images), torch.tensor([0, 1, 1, 0])).backward()
    optimizer.step()


@pytest.mark.parametrize("form", ["depthwise", "separable"])
def test_frozen_at_random(form):
    spec = recipe(Composed(parts=(Learnable(), PEG(frozen=True, form=form))))
    model = build_model_with_weights(spec, seed=1)
    before = {name: value.clone() for name, value in model.named_parameters()}
    step(model, spec)
    same = {name for name, value in model.named_parameters() if torch.equal(value, before[name])}
    assert same == {name for name in before if ".peg." in name}


def test_frozen_from_a_learned_start(tmp_path):
    """The parent is the same recipe with a PEG that learns; the child takes its encoding alone."""
    spec = recipe(PEG(frozen=True), init=FromTrial(values={"encoding.frozen": False}, part="encoding"))
    parent = build_model_with_weights(spec.parent, seed=1)
    assert all(value.requires_grad for value in parent.parameters())
    step(parent, spec.parent)
    write(tmp_path / "weights.pt", parent.state_dict())
    child = build_model_with_weights(spec, 1, tmp_path / "weights.pt")
    learnt = parent.encoding.peg.conv["-1"].weight
    assert torch.equal(child.encoding.peg.conv["-1"].weight, learnt)
    assert not torch.equal(child.blocks[0].attn.qkv.weight, parent.blocks[0].attn.qkv.weight)
    step(child, spec)
    assert torch.equal(child.encoding.peg.conv["-1"].weight, learnt)


def test_a_frozen_part_leaves_the_others_learning():
    spec = recipe(Composed(parts=(PEG(frozen=True), IRPE())), trainable="position+head")
    model = build_model_with_weights(spec, seed=1)
    learning = {name for name, value in model.named_parameters() if value.requires_grad}
    assert learning == {"encoding.irpe.tables.k", "head.bias", "head.weight"}
