"""Two models with the same seed share every parameter of the same name and shape, whatever else differs."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings import PEG, Composed, Fourier, Learnable, NoEncoding, RelativeBias, Sinusoidal
from trainables.encodings.encoding_torch import PositionEncoding
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.init import init_weights
from trainables.training.parameters import set_trainable

ARMS = (
    NoEncoding(), Learnable(), Sinusoidal(), RelativeBias(), PEG(), PEG(places=(0, -1)), Fourier(),
    Composed(parts=(PEG(), Fourier(), Fourier(gamma=7.0))),
)  # fmt: skip


def arm(encoding, seed=0, **model) -> PositionedViT:
    made = build_model(Recipe(encoding=encoding, model=ViT(**{"depth": 2, **model})))
    init_weights(made, seed)
    return made


def shared(one: nn.Module, other: nn.Module) -> Iterator[tuple[str, torch.Tensor, torch.Tensor]]:
    right = dict(other.named_parameters())
    for name, value in one.named_parameters():
        if name in right and right[name].shape == value.shape:
            yield name, value, right[name]


@pytest.fixture(scope="module")
def others() -> list[PositionedViT]:
    """Models that tests only look at."""
    return [arm(encoding) for encoding in ARMS]


def test_arms_of_one_seed_share_the_backbone(encoding, others):
    one = arm(encoding)
    for other in others:
        pairs = {name: torch.equal(left, right) for name, left, right in shared(one, other) if "encoding." not in name}
        assert all(pairs.values())
        narrower = {name for name, _ in other.named_parameters() if not name.startswith("encoding.")} - {*pairs}
        assert all(name.startswith(("patch_embed", "cls_token")) or ".qkv." in name for name in narrower)
        assert bool(narrower) == (one.encoding.reserved != other.encoding.reserved)


def test_alone_and_composed_share_the_encoding():
    alone, composed = arm(PEG()), arm(Composed(parts=(Learnable(), PEG())))
    assert torch.equal(alone.encoding.peg.conv["-1"].weight, composed.encoding.peg.conv["-1"].weight)


def test_places_of_a_peg_share_across_arms():
    one, two = arm(PEG(places=(0,))), arm(PEG(places=(-1, 0)))
    assert torch.equal(one.encoding.peg.conv["0"].weight, two.encoding.peg.conv["0"].weight)
    assert not torch.equal(two.encoding.peg.conv["-1"].weight, two.encoding.peg.conv["0"].weight)


def test_gamma_scales_the_same_draw():
    near, far = arm(Fourier(gamma=1.0)), arm(Fourier(gamma=4.0))
    wide, narrow = near.encoding.fourier.frequencies.weight, far.encoding.fourier.frequencies.weight
    assert torch.allclose(wide, 4 * narrow)


def test_seeds_and_names_have_streams_of_their_own():
    one, other = arm(Learnable()), arm(Learnable(), seed=1)
    drawn = [(left, right) for _, left, right in shared(one, other) if left.std() > 0]
    assert not any(torch.equal(left, right) for left, right in drawn)
    assert not torch.equal(one.blocks[0].attn.proj.weight, one.blocks[1].attn.proj.weight)


def test_types_begin_at_the_same_point():
    single, double = arm(Fourier()), build_model(Recipe(encoding=Fourier(), model=ViT(depth=2))).double()
    init_weights(double, 0)
    for name, left, right in shared(single, double):
        assert torch.equal(left, right.float()), name


@pytest.mark.parametrize(("name", "std", "bound"), [
    ("blocks.0.mlp.fc1.weight", 0.02, 2.0),
    ("head.weight", 0.02, 2.0),
    ("cls_token", 1e-6, 1e-4),
    ("patch_embed.proj.weight", 1 / 3**0.5 / 48**0.5, 1 / 48**0.5),
    ("encoding.learnable.table", 0.02, 2.0),
    ("encoding.fourier.frequencies.weight", 0.5, 9.0),
    ("encoding.fourier.mlp.0.weight", 1 / 3**0.5 / 256**0.5, 1 / 256**0.5),
    ("encoding.peg.conv.-1.weight", 1 / 3**0.5 / 3, 1 / 3),
])  # fmt: skip
def test_spread_of_the_start(name, std, bound):
    encoding = Composed(parts=(Learnable(), Fourier(gamma=2.0), PEG()))
    value = dict(arm(encoding, embed_dim=256).named_parameters())[name]
    assert abs(value.std().item() / std - 1) < 0.2
    assert value.abs().max() <= bound


def test_norms_and_biases_begin_at_one_and_zero():
    for name, value in arm(RelativeBias()).named_parameters():
        if "norm" in name or name.endswith(".bias"):
            assert "patch_embed" in name or torch.equal(
                value, torch.full_like(value, float(name.endswith("weight")))
            ), name
    assert not arm(RelativeBias()).encoding.relative_bias.table.any()


class Silent(PositionEncoding):
    def __init__(self) -> None:
        super().__init__()
        self.angle = nn.Parameter(torch.zeros(3))


def test_a_parameter_without_initial_values_is_an_error():
    with pytest.raises(SpecError, match=r"Silent\.init_parameter must set the initial value of parameter 'angle'"):
        init_weights(Silent(), 0)


def test_only_position_learns(encoding, make):
    model = make(encoding)
    set_trainable(model, "all")
    learning = {name for name, value in model.named_parameters() if value.requires_grad}
    frozen = {name for name, _ in model.named_parameters()} - learning
    assert bool(frozen) == getattr(encoding, "frozen", False)
    assert all(name.startswith("encoding.") for name in frozen)
    if not any(name.startswith("encoding.") for name in learning):
        with pytest.raises(SpecError, match=r"nothing of the encoding learns, got 'position'"):
            set_trainable(model, "position")
        return
    set_trainable(model, "position")
    assert {name.split(".")[0] for name, value in model.named_parameters() if value.requires_grad} == {"encoding"}
    set_trainable(model, "all")
    assert {name for name, value in model.named_parameters() if value.requires_grad} == learning
