"""The other backbones against timm's: outputs, gradients, keys, beginnings, statistics, precision."""

import pytest
import torch
from scipy.stats import ks_2samp
from torch import nn
from torch.nn.functional import interpolate

from tests.anchors.backbones import HOSTS, SPECS, TABLES, ours, size, spread, timms
from trainables.backbones import Swin, ViT
from trainables.backbones.swin_torch import PositionedSwin
from trainables.data import RedGreen
from trainables.encodings import (  # fmt: skip
    IRPE,
    PEG,
    Add,
    Composed,
    Concat,
    Fourier,
    Learnable,
    NoEncoding,
    OwnEncoding,
    RelativeBias,
    ReservedChannels,
    Sinusoidal,
)
from trainables.encodings.encoding_torch import Grid
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.spec import LocusError, SpecError
from trainables.training.init import init_weights
from trainables.training.loop import build_model_with_weights
from trainables.training.parameters import no_decay, set_trainable, train_mode
from trainables.weights.transfer import at_size

KINDS = [*HOSTS]
STAGED = [kind for kind in KINDS if kind not in TABLES]
TABLE = "encoding.learnable.table"


def encoding(kind):
    return Learnable() if kind in TABLES else NoEncoding()


def pair(kind, dtype):
    """Ours and timm's, with the same weights."""
    mine, theirs = ours(kind, encoding(kind)).to(dtype), spread(timms(kind)).to(dtype)
    state = theirs.state_dict()
    if kind in TABLES:
        state[TABLE] = state.pop(TABLES[kind]).reshape(mine.state_dict()[TABLE].shape)
    mine.load_state_dict(state)
    return mine, theirs


def images(kind, dtype=torch.float32):
    return torch.randn(3, *size(kind), dtype=dtype, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_same_outputs_and_gradients_to_the_bit(kind, dtype):
    mine, theirs = pair(kind, dtype)
    left, right = mine(images(kind, dtype)), theirs(images(kind, dtype))
    assert torch.equal(left, right)
    assert left.std() > 0.01
    left.square().sum().backward()
    right.square().sum().backward()
    gradients = dict(mine.named_parameters())
    for name, value in theirs.named_parameters():
        own = gradients[TABLE if name == TABLES.get(kind) else name].grad
        assert torch.equal(own, value.grad.reshape(own.shape)), name


@pytest.mark.parametrize("kind", KINDS)
def test_timms_keys_stay(kind):
    theirs = set(timms(kind).state_dict()) - {TABLES.get(kind)}
    assert set(ours(kind, NoEncoding()).state_dict()) == theirs


def test_tables_of_a_window_larger_than_a_side_are_counted():
    spec = Swin(depths=(2, 1), num_heads=(2, 4), embed_dim=12, window_size=5)
    spec.check((2, 16, 40))
    counted = sum(value.numel() for value in PositionedSwin(spec, (2, 16, 40), 7, NoEncoding()).parameters())
    assert spec.parameters((2, 16, 40), 7, ReservedChannels()) == counted


@pytest.mark.parametrize("kind", KINDS)
def test_features_stand_on_the_grid_they_end_on(kind):
    model = spread(ours(kind, encoding(kind)))
    t = model.features(images(kind))
    *_, last = SPECS[kind].shapes(size(kind))
    assert t.grid == Grid(last.rows, last.columns, 1 if kind in TABLES else 0)
    assert t.x.shape == (3, t.grid.prefix + t.grid.patches, last.widths.dim)
    assert torch.equal(model.forward_features(images(kind)), t.x)
    with pytest.raises(LocusError, match="forward_intermediates"):
        model.forward_intermediates(images(kind))


@pytest.mark.parametrize("kind", KINDS)
def test_each_parameter_begins_as_timms(kind):
    """What timm always begins alike is equal; what it draws has the same distribution (Kolmogorov, Smirnov)."""
    torch.manual_seed(0)  # timm draws from torch's own generator: the same each night, as ours are
    one, other = timms(kind), dict(timms(kind).named_parameters())
    mine = ours(kind, NoEncoding())
    drawn = []
    for seed in range(6):
        init_weights(mine, seed)
        drawn.append({name: value.detach().clone() for name, value in mine.named_parameters()})
    more = [dict(timms(kind).named_parameters()) for _ in range(4)]
    for name, value in one.named_parameters():
        if name == TABLES.get(kind):
            continue
        fixed = value == other[name]
        assert torch.equal(drawn[0][name][fixed], value[fixed]), name
        if not fixed.all():
            left = torch.cat([draws[name][~fixed] for draws in drawn])
            right = torch.cat([draws[name][~fixed] for draws in ({name: value}, other, *more)])
            assert ks_2samp(left.detach(), right.detach()).pvalue > 1e-5, name


@pytest.mark.parametrize("kind", KINDS)
def test_what_timm_does_not_decay_does_not_decay(kind):
    theirs = {name for name in timms(kind).no_weight_decay() if name != TABLES.get(kind)}
    model = ours(kind, Composed(parts=(Learnable(), Fourier())))
    assert theirs <= no_decay(model)
    tables = {name for name, _ in model.named_parameters() if name.endswith("learnable.table")}
    assert len(tables) == len(SPECS[kind].shapes(size(kind)))
    weights = {name for name, value in timms(kind).named_parameters() if value.ndim > 1} - {TABLES.get(kind)}
    assert no_decay(model) & (weights | tables) == tables | {name for name in theirs if name in weights}


@pytest.mark.parametrize("kind", TABLES)
def test_concat_narrows_what_makes_the_tokens(kind):
    """[content, position] reaches the blocks: content of a narrower layer, the table in the last channels."""
    model = spread(ours(kind, Learnable(injection=Concat(split=0.25))))
    (shape,) = SPECS[kind].shapes(size(kind))
    dim, seen = shape.widths.dim, []
    first = model.network[2][0] if kind == "volo" else model.blocks[0]
    first.register_forward_pre_hook(lambda _, given: seen.append(given[-1]))
    model(images(kind))
    tokens = seen[0].reshape(3, -1, dim)
    table = model.encoding.learnable.table
    assert table.shape == (shape.tokens, dim // 4)
    assert torch.equal(tokens[..., -dim // 4 :], table.expand(3, -1, -1))
    same = {name: value.shape for name, value in timms(kind).named_parameters() if name != TABLES[kind]}
    narrower = {name for name, value in model.named_parameters() if name in same and value.shape != same[name]}
    layers = {"volo": {"network.1.proj.weight", "network.1.proj.bias"},
              "tnt": {"proj.weight", "proj.bias", "norm2_proj.weight", "norm2_proj.bias", "cls_token"}}  # fmt: skip
    assert narrower == layers.get(kind, {"patch_embed.proj.weight", "patch_embed.proj.bias"})
    assert all(dict(model.named_parameters())[name].shape[-1 if name == "cls_token" else 0] == dim * 3 // 4
               for name in narrower)  # fmt: skip


OWN = """
from dataclasses import replace

import torch

from trainables.encodings import EncodingSpec
from trainables.encodings.encoding_torch import PositionEncoding, ReservedChannels


class Ones(EncodingSpec):
    kind: str = "ones.py:Ones"

    @property
    def injection_points(self):
        return frozenset({"first"})

    def build(self, widths, grid, depth):
        return Beside()


class Beside(PositionEncoding):
    reserved = ReservedChannels(tokens=2)

    def tokens(self, t, block):
        return replace(t, x=torch.cat([t.x, torch.ones_like(t.x[..., :2])], dim=2)) if block == 0 else t
"""


@pytest.mark.parametrize("kind", KINDS)
def test_an_encoding_of_ones_own_takes_channels_where_there_are_some(kind):
    own = OwnEncoding(kind="ones.py:Ones", source=OWN)
    if kind in STAGED:
        with pytest.raises(
            SpecError, match=r"encoding must leave the stages of the backbone all their channels, got One"
        ):
            ours(kind, own)
        return
    model = spread(ours(kind, own))
    assert model(images(kind)).shape == (3, 7)
    first, whole = ({name: value.numel() for name, value in one.named_parameters()} for one in (model, timms(kind)))
    assert sum(whole.values()) - whole[TABLES[kind]] - sum(first.values()) > 0


def shuffled(kind, x, order):
    """The same images with their patches, of the grid that position stands on, in another order."""
    (shape,) = SPECS[kind].shapes(size(kind))
    side = size(kind)[1] // shape.rows
    patches = x.reshape(3, 2, shape.rows, side, shape.columns, side).transpose(3, 4).flatten(2, 3)[:, :, order]
    return patches.unflatten(2, (shape.rows, shape.columns)).transpose(3, 4).reshape(x.shape)


@pytest.mark.parametrize("kind", TABLES)
def test_shuffled_patches_are_told_apart(kind):
    """By a code in all; without one CaiT and TNT see a bag of patches, the others' attention or stem knows better."""
    (shape,) = SPECS[kind].shapes(size(kind))
    order = torch.randperm(shape.rows * shape.columns, generator=torch.Generator().manual_seed(1))
    x = images(kind, torch.float64)
    for coded in (True, False):
        model = spread(ours(kind, Learnable() if coded else NoEncoding())).double()
        same = torch.allclose(model(x), model(shuffled(kind, x, order)), atol=1e-9)
        assert same == (not coded and kind in ("cait", "tnt"))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("given", [Learnable(), PEG(), Composed(parts=(PEG(), Fourier(), Learnable()))])
def test_every_parameter_learns(kind, given):
    model = spread(ours(kind, given))
    model(images(kind)).square().sum().backward()
    assert [name for name, value in model.named_parameters() if value.grad is None or not value.grad.any()] == []


def changed(kind, **values):
    """A spec with other values."""
    return type(SPECS[kind]).read({**SPECS[kind].plain(), **values})


@pytest.mark.parametrize("kind", STAGED)
def test_each_stage_has_an_encoding_on_its_own_grid(kind):
    model = ours(kind, Learnable())
    for shape, stage in zip(SPECS[kind].shapes(size(kind)), model.encoding, strict=True):
        assert stage.learnable.table.shape == (shape.rows * shape.columns, shape.widths.dim)


@pytest.mark.parametrize("kind", STAGED)
@pytest.mark.parametrize("place", [-1, 0])
def test_a_peg_acts_before_its_block_in_every_stage(kind, place):
    model = spread(ours(kind, PEG(places=(place,)), changed(kind, depths=[2] * len(SPECS[kind].depths))))
    made, given = [], []
    for stage in model.encoding:
        stage.peg.conv[str(place)].register_forward_hook(lambda _, seen, out: made.append(seen[0] + out))
    stages = {"pvt_v2": "stages", "swin": "layers", "twins": "blocks"}[kind]
    for stage in getattr(model, stages):
        block = (stage if kind == "twins" else stage.blocks)[place + 1]
        block.register_forward_pre_hook(lambda _, seen: given.append(seen[0]))
    model(images(kind))
    assert len(made) == len(given) == len(SPECS[kind].depths)
    for image, tokens in zip(made, given, strict=True):
        assert torch.equal(image.flatten(2).mT, tokens.reshape(3, -1, image.shape[1]))


def test_twins_peg_is_ours_after_the_first_block():
    theirs = spread(ours("twins", NoEncoding(), changed("twins", depths=[2, 3, 2])))
    mine = ours("twins", PEG(places=(0,)), changed("twins", depths=[2, 3, 2], peg=False))
    pegs = {name: name.split(".") for name in theirs.state_dict() if name.startswith("pos_block.")}
    assert len(pegs) == 6
    named = {name: f"encoding.{parts[1]}.peg.conv.0.{parts[-1]}" for name, parts in pegs.items()}
    mine.load_state_dict({named.get(name, name): value for name, value in theirs.state_dict().items()})
    assert torch.equal(mine(images("twins")), theirs(images("twins")))


def test_pvt_has_its_class_token_in_the_last_stage_alone():
    """The class token stands before the last patches, with a row of the table, and is what the head reads."""
    model = spread(ours("twins", Learnable(), changed("twins", peg=False, pool="token"))).double()
    x = images("twins").double()
    for stage, (embed, blocks, encoding) in enumerate(
        zip(model.patch_embeds, model.blocks, model.encoding, strict=True)
    ):
        x, side = embed(x)
        last = stage == len(model.blocks) - 1
        x = torch.cat([model.cls_token.expand(3, -1, -1), x], dim=1) if last else x
        x = x + encoding.learnable.table
        for block in blocks:
            x = block(x, side)
        x = x if last else x.mT.reshape(3, -1, *side)
    right = model.head(model.norm(x)[:, 0])
    torch.testing.assert_close(model(images("twins").double()), right, rtol=1e-12, atol=1e-12)
    assert model.has_place("cls_token"), "no weight decay"


def test_swin_without_its_tables_is_swin_with_zeros():
    theirs = spread(ours("swin", NoEncoding()))
    mine = ours("swin", NoEncoding(), changed("swin", relative_bias=False))
    tables = [name for name in theirs.state_dict() if "relative_position" in name]
    assert len(tables) == 5
    mine.load_state_dict({name: value for name, value in theirs.state_dict().items() if name not in tables})
    assert not torch.allclose(mine(images("swin")), theirs(images("swin")))
    with torch.no_grad():
        for name in tables:
            theirs.get_parameter(name).zero_()
    assert torch.equal(mine(images("swin")), theirs(images("swin")))


TRAINED_KINDS = [*HOSTS]
WHOLE = {"swin": {"window_size": 4, "patch_size": 4}}
"""At 16 pixels the second stage of this Swin is smaller than its window."""


@pytest.mark.parametrize("kind", TRAINED_KINDS)
def test_what_does_not_decay_does_not_in_a_training_either(kind):
    model = ours(kind, NoEncoding())
    inside = nn.ModuleDict({"model": model})
    assert {f"model.{name}" for name in no_decay(model)} == no_decay(inside)


def test_statistics_of_what_does_not_learn_stay():
    """VOLO's stem normalises by batches."""
    model = ours("volo", Learnable())
    before = {name: value.clone() for name, value in model.named_buffers() if "running" in name}
    assert before
    set_trainable(model, "position")
    train_mode(model)
    assert model.training
    model(torch.randn(3, *size("volo")))
    assert all(torch.equal(value, before[name]) for name, value in model.named_buffers() if name in before)
    set_trainable(model, "all")
    train_mode(model)
    model(torch.randn(3, *size("volo")))
    assert not any(torch.equal(value, before[name]) for name, value in model.named_buffers() if name in before)


@pytest.mark.parametrize("kind", TRAINED_KINDS)
def test_every_backbone_is_tested_at_other_sides(kind, monkeypatch):
    """Without an encoding nothing is lost: the model of the other size with the same weights."""
    code = Learnable() if kind in TABLES else PEG()
    for encoding in (NoEncoding(), code):
        recipe = Recipe(data=RedGreen(image_size=32), model=SPECS[kind].put(WHOLE.get(kind, {})), encoding=encoding)
        model = spread(build_model_with_weights(recipe, 0))
        side = 48 if kind != "swin" else 16
        other = at_size(model, recipe, side)
        assert torch.isfinite(other(torch.randn(2, 3, side, side))).all()
        built = build_model(recipe, (3, side, side)).eval()
        same = {name: value.shape == built.state_dict()[name].shape for name, value in model.state_dict().items()}
        moved = {name for name, stays in same.items() if not stays}
        assert all(name.endswith(("learnable.table", "relative_position_bias_table")) for name in moved)
        assert bool(moved) == (kind == "swin" or (encoding != NoEncoding() and kind in TABLES))
        kept = {name: value for name, value in other.state_dict().items() if same[name]}
        assert all(torch.equal(value, model.state_dict()[name]) for name, value in kept.items())


def test_a_swins_tables_follow_its_windows():
    """A linear table stays linear on a smaller window, apart from the borders."""
    recipe = Recipe(data=RedGreen(image_size=32), model=SPECS["swin"].put(WHOLE["swin"]))
    model = build_model_with_weights(recipe, 0)
    other = at_size(model, recipe, 16).layers[1].blocks[0].attn
    table = model.layers[1].blocks[0].attn.relative_position_bias_table
    assert table.shape == (49, 4)
    assert other.relative_position_bias_table.shape == (9, 4)
    expected = interpolate(table.T.reshape(1, 4, 7, 7).double(), (3, 3), mode="bicubic", align_corners=False)
    assert torch.allclose(other.relative_position_bias_table.double(), expected.reshape(4, 9).T, atol=1e-6)


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
