"""Two models of a seed share each parameter of one name and shape; what is frozen stays; keys stay."""

from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy

from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.data import RedGreen
from trainables.encodings import (  # fmt: skip
    IRPE,
    PEG,
    Add,
    Composed,
    Concat,
    Extend,
    Fourier,
    Gabor,
    Learnable,
    LearnableSinusoidal,
    NoEncoding,
    Relative,
    RelativeBias,
    Sinusoidal,
)
from trainables.encodings.encoding_torch import PositionEncoding
from trainables.encodings.irpe import Cross, Piecewise, Product
from trainables.encodings.relative import ClippedOffsets
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.checkpoint import write
from trainables.training.init import init_weights
from trainables.training.loop import build_model_with_weights
from trainables.training.optimizer import build_optimizer
from trainables.training.parameters import no_decay, set_trainable

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


def frozen_recipe(encoding, **values):
    return Recipe(
        data=RedGreen(image_size=16), model=ViT(embed_dim=16, depth=2, num_heads=2), encoding=encoding, **values
    )


def step(model, spec):
    images = torch.randn(4, 3, 16, 16, generator=torch.Generator().manual_seed(0))
    optimizer = build_optimizer(model, spec.optimizer, no_decay(model))
    cross_entropy(model(images), torch.tensor([0, 1, 1, 0])).backward()
    optimizer.step()


def test_frozen_from_a_learned_start(tmp_path):
    """The parent is the same frozen_recipe with a PEG that learns; the child takes its encoding alone."""
    spec = frozen_recipe(PEG(frozen=True), init=FromTrial(values={"encoding.frozen": False}, part="encoding"))
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
    spec = frozen_recipe(Composed(parts=(PEG(frozen=True), IRPE())), trainable="position+head")
    model = build_model_with_weights(spec, seed=1)
    learning = {name for name, value in model.named_parameters() if value.requires_grad}
    assert learning == {"encoding.irpe.tables.k", "head.bias", "head.weight"}


PINNED = {
    "4ae6ce2b806e9c9a": Recipe(),
    "f52e6426964c7e46": Recipe(encoding=Learnable()),
    "8caa36f587500a69": Recipe(encoding=Learnable(std=0.5)),
    "54504d98f75c6fa6": Recipe(encoding=Sinusoidal()),
    "fc110971209a208b": Recipe(encoding=LearnableSinusoidal()),
    "1917c4a0a44b61b0": Recipe(encoding=Fourier()),
    "c6a693a9dea9e828": Recipe(encoding=Fourier(gamma=1.5, features=8, coordinates="unit")),
    "e659c21469e2b025": Recipe(encoding=RelativeBias(shared=True)),
    "5c1b72e07dc795f3": Recipe(encoding=PEG()),
    "8817b298a96e427f": Recipe(encoding=PEG(places=(-1, 0), kernel=5), model=ViT(depth=2, pool="avg")),
    "5d9d218a7f6674ca": Recipe(encoding=Composed(parts=(Learnable(), RelativeBias(shared=True)))),
}


@pytest.mark.parametrize("key", PINNED)
def test_keys_stay(key):
    assert Run(recipe=PINNED[key], seed=3).key == key


def test_who_changes_an_identity_changes_no_key():
    recipe = Recipe(encoding=Fourier(gamma=1.5))
    key = Run(recipe=recipe, seed=0).key
    said = recipe.identity()
    said["encoding"]["gamma"] = 9.0
    del said["data"]
    assert Run(recipe=recipe, seed=0).key == key
    assert recipe.identity()["encoding"]["gamma"] == 1.5


def test_a_nested_default_goes_unsaid():
    assert Learnable(injection=Add()).identity() == {"kind": "learnable"}
    assert IRPE(mapping=Product(), index=Piecewise()).identity() == {"kind": "irpe"}
    assert Learnable(injection=Concat()).identity() == {"kind": "learnable", "injection": {"kind": "concat"}}
    said = Relative(offsets=ClippedOffsets(reach=4), value=True).identity()
    assert said == {"kind": "relative", "offsets": {"kind": "clipped", "reach": 4}, "value": True}


def test_a_kind_and_a_path_into_what_it_begins_with():
    put = Recipe().put({"encoding.kind": "irpe", "encoding.index.alpha": 1.0, "encoding.mapping.kind": "cross"})
    assert put.encoding == IRPE(mapping=Cross(), index=Piecewise(alpha=1.0))
    values = {
        "encoding.parts.0.kind": "gabor",
        "encoding.parts.0.injection.kind": "extend",
        "encoding.parts.1.kernel": 5,
    }
    put = Recipe(encoding=Composed(parts=(Learnable(), PEG()))).put(values)
    assert put.encoding == Composed(parts=(Gabor(injection=Extend()), PEG(kernel=5)))
    with pytest.raises(SpecError, match=r"no field 'encoding\.index\.ratio'; known: kind, alpha, beta, gamma"):
        Recipe().put({"encoding.kind": "irpe", "encoding.index.ratio": 1.0})


def test_knobs_by_position_leave_out_how_a_code_enters():
    assert Fourier(3.0) == Fourier(gamma=3.0)
    assert Concat(0.25) == Concat(split=0.25)
    assert Extend(4, shared=False) == Extend(channels=4, shared=False)
