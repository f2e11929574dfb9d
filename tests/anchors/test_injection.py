"""How codes enter, and convolutions (PEG), against loops over pairs and places."""

import itertools

import pytest
import torch

from tests.anchors.pairs import GRIDS, SCALE, WIDTHS, content, fast, module, same, slow
from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.data import Digits
from trainables.encodings import (
    PEG,
    Add,
    Composed,
    Concat,
    Extend,
    Fourier,
    Gabor,
    Learnable,
    Parts,
    RelativeBias,
    Sinusoidal,
    Widths,
)
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Heads, Tokens
from trainables.recipe import Recipe
from trainables.spec import SpecError

PLACES = [("query",), ("key",), ("value",), ("query", "key"), ("query", "key", "value")]
SUBSETS = [some for size in (1, 2, 3, 4) for some in itertools.combinations((1, 2, 3, 4), size) if some != (1,)]


def tables(part, places, shared):
    """The code at each place; computed once, as loops over pairs ask for it at every pair."""
    return {place: part.code() if shared else part._modules[f"{place}_1"].code() for place in places}


def head(code, h, heads=2):
    """The channels of one head: a head's are next to each other."""
    width = code.shape[1] // heads
    return code[:, h * width : (h + 1) * width]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_add(grid, places, shared):
    made = module(Learnable(injection=Add(places=places, shared=shared)), grid)
    codes = tables(made.learnable, places, shared)

    def at(channels, place, b, h, token):
        own = channels[b, h, token]
        return own + head(codes[place], h)[token] if place in places else own

    def logit(b, h, i, j):
        return SCALE * at(q, "query", b, h, i) @ at(k, "key", b, h, j)

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: at(v, "value", b, h, j)), qkv)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("places", PLACES, ids=str)
@pytest.mark.parametrize(("split", "width"), [(0.5, 2), (0.25, 1), (0.75, 3)])
def test_concat_head_by_head(grid, places, split, width):
    made = module(Learnable(injection=Concat(split=split, places=places, shared=False)), grid)
    qkv = content(grid, tuple(width if place in places else 0 for place in ("query", "key", "value")))
    assert made.learnable._modules[f"{places[0]}_1"].table.shape == (grid.prefix + grid.patches, 2 * width)
    codes = tables(made.learnable, places, shared=False)

    def at(channels, place, b, h, token):
        own = channels[b, h, token]
        if place not in places:
            return own
        return torch.cat([own, head(codes[place], h)[token]])

    def logit(b, h, i, j):
        return SCALE * at(qkv[0], "query", b, h, i) @ at(qkv[1], "key", b, h, j)

    if len({"query", "key"} & {*places}) == 1:  # the other side keeps its width, so that they still meet
        assert fast(made, qkv, grid, 1).shape[3] == 4
    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: at(qkv[2], "value", b, h, j)), qkv)


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("shared", [True, False])
def test_extend(grid, channels, shared):
    made = module(Learnable(injection=Extend(channels=channels, shared=shared)), grid)
    codes = tables(made.learnable, ("query", "key"), shared)

    def logit(b, h, i, j):
        asked, offered = (head(code, h) for code in codes.values())
        return SCALE * (q[b, h, i] @ k[b, h, j] + asked[i] @ offered[j])

    q, k, v = qkv = content(grid)
    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)


@pytest.mark.parametrize("parts", SUBSETS, ids=str)
@pytest.mark.parametrize("shared", [True, False])
def test_parts(parts, shared):
    grid = GRIDS[1]
    made = module(Learnable(injection=Parts(parts=parts, shared=shared)), grid)
    coded = [place for place, used in (("query", {2, 4}), ("key", {3, 4})) if used & {*parts}]
    codes = tables(made.learnable, coded, shared)
    q, k, v = qkv = content(grid)

    def logit(b, h, i, j):
        asked, offered = (
            head(codes[place], h)[token] if place in coded else None for place, token in (("query", i), ("key", j))
        )
        terms = {
            1: lambda: q[b, h, i] @ k[b, h, j],
            2: lambda: asked @ k[b, h, j],
            3: lambda: q[b, h, i] @ offered,
            4: lambda: asked @ offered,
        }
        return SCALE * sum(terms[part]() for part in parts)

    same(made, fast(made, qkv, grid, 1), slow(qkv, logit, lambda b, h, i, j: v[b, h, j]), qkv)
    products = [(2,), (3,), (4,), (1, 2), (1, 3), (2, 4), (3, 4), (1, 2, 3, 4)]
    assert made.heads(Heads(q, k, v, None, grid), 1).q.shape[3] == (4 if parts in products else 8)


def test_all_parts_are_addition_and_none_is_none():
    grid = GRIDS[0]
    parts, add = (
        module(Learnable(injection=how), grid) for how in (Parts(parts=(1, 2, 3, 4)), Add(places=("query", "key")))
    )
    qkv = content(grid)
    assert torch.equal(fast(parts, qkv, grid, 0), fast(add, qkv, grid, 0))
    assert Learnable(injection=Parts(parts=(1,))).is_noop
    assert Learnable(injection=Add(places=())).is_noop


@pytest.mark.parametrize("how", [Add(places=("query", "key"), blocks=1), Extend(blocks=1), Parts(blocks=1)], ids=str)
def test_the_first_blocks_alone(how):
    grid = GRIDS[0]
    made, plain = module(Learnable(injection=how), grid), build(Composed(parts=()), WIDTHS, grid, 2)
    qkv = content(grid)
    before, after = (fast(made, qkv, grid, block) for block in (0, 1))
    assert torch.equal(after, fast(plain, qkv, grid, 1))
    assert not torch.allclose(before, after)


def test_a_table_before_each_of_the_first_blocks():
    """CPVT 5.3: at the beginning and before each of the next five blocks."""
    grid = Grid(3, 2, prefix=1)
    made = module(Learnable(injection=Add(blocks=6, shared=False)), grid, depth=8)
    x = torch.randn(2, 7, 8, dtype=torch.float64)
    for block in range(8):
        out = made.tokens(Tokens(x, grid), block).x
        expected = x + made.learnable._modules[f"common_{block}"].table if block < 6 else x
        assert torch.equal(out, expected)
    assert len([*made.parameters()]) == 6
    assert len([*module(Learnable(injection=Add(blocks=6)), grid, depth=8).parameters()]) == 1


def test_concat_in_the_tokens_puts_content_first_and_gives_the_class_token_a_row():
    grid = Grid(3, 2, prefix=1)
    made = module(Sinusoidal(injection=Concat()), grid)
    x = torch.randn(2, 7, 4, dtype=torch.float64)
    out = made.tokens(Tokens(x, grid), 0).x
    assert torch.equal(out[..., :4], x)
    assert torch.equal(out[0, :, 4:], made.sinusoidal.code())
    assert not out[:, 0, 4:].any()
    assert made.tokens(Tokens(x, grid), 1).x is x
    assert module(Learnable(injection=Concat()), grid).learnable.table.shape == (7, 4)


def test_appended_channels_are_left_alone_by_what_comes_after():
    """Two that append, one that adds, parts: each changes the head's own channels, or appends further ones."""
    grid = GRIDS[1]
    first, added, second = Extend(channels=1), Add(places=("query", "key")), Extend(channels=3)
    orders = [(first, added, second), (added, first, second), (first, second, added)]
    qkv = content(grid)
    outs = []
    for order in orders:
        made = build(Composed(parts=tuple(Learnable(injection=how) for how in order)), WIDTHS, grid, 2).double()
        for part, how in zip(made.parts, order, strict=True):
            stream = torch.Generator().manual_seed([first, added, second].index(how))
            torch.nn.init.normal_(made.part(part).table, generator=stream)
        outs.append(fast(made, qkv, grid, 0))
    assert torch.allclose(outs[0], outs[1], atol=1e-12)
    assert torch.allclose(outs[0], outs[2], atol=1e-12)


def model_parameters(dim, heads, encoding):
    with torch.device("meta"):
        model = PositionedViT(
            ViT(embed_dim=dim, depth=12, num_heads=heads, patch_size=16), (3, 224, 224), 1000, encoding
        )
    return sum(value.numel() for value in model.parameters())


@pytest.mark.parametrize(
    ("dim", "heads", "added", "beside"), [(384, 6, 22_050_664, 21_865_000), (768, 12, 86_567_656, 86_196_328)]
)
def test_halving_the_content_of_deit(dim, heads, added, beside):
    """Concat paper, DeiT-S and DeiT-B at s = 1/2 (the paper prints twice the saving)."""
    assert model_parameters(dim, heads, Learnable()) == added
    assert model_parameters(dim, heads, Learnable(injection=Concat())) == beside


def test_projections_make_fewer_channels():
    model = PositionedViT(
        ViT(embed_dim=16, num_heads=2, patch_size=4),
        (3, 12, 20),
        3,
        Learnable(injection=Concat(places=("query", "key"))),
    )
    assert model.blocks[0].attn.qkv.weight.shape == (2 * (4 + 4 + 8), 16)
    assert model.blocks[0].attn.scale == 8**-0.5
    assert model(torch.randn(2, 3, 12, 20)).shape == (2, 3)


def recipe(encoding, **model):
    return Recipe(
        data=Digits(),
        model=ViT(**{"embed_dim": 24, "num_heads": 3, "depth": 2, "patch_size": 2, **model}),
        encoding=encoding,
    )


@pytest.mark.parametrize(("encoding", "complaint"), [
    (Learnable(injection=Concat(split=0.3)),
     r"injection\.split must be a share of 24 channels .* \(nearest: 0\.291667 or 0\.333333\), got 0\.3"),
    (Sinusoidal(injection=Concat(split=0.25)),
     r"a share of 24 channels that is a multiple of 4 \(nearest: 0\.166667 or 0\.333333\), got 0\.25"),
    (Learnable(injection=Concat(split=0.05, places=("query",))),
     r"a multiple of 3 \(nearest: 0\.125 or 0\.25\), got 0\.05"),
    (Fourier(injection=Extend(channels=1)),
     r"injection\.channels must be such that a code's channels \(3\) are divisible by 2, got 1"),
    (Learnable(injection=Add(places=("query",), blocks=3)),
     r"injection\.blocks must be at most the 2 blocks of the model, got 3"),
    (Composed(parts=tuple(Learnable(injection=Concat(split=split)) for split in (0.5, 0.5, 0.75))),
     r"nearest"),
    (Composed(parts=tuple(Learnable(injection=Concat(places=("key",))) for _ in range(2))),
     r"such that the content keeps some channels"),
])  # fmt: skip
def test_mistakes(encoding, complaint):
    with pytest.raises(SpecError, match=complaint):
        recipe(encoding)


def test_places_are_said_in_one_order():
    one, other = (Learnable(injection=Add(places=places)) for places in (("key", "query"), ("query", "key")))
    assert one == other
    with pytest.raises(SpecError, match=r"places must be without doubles"):
        Add(places=("key", "key"))
    with pytest.raises(SpecError, match=r"parts must be at least one of"):
        Parts(parts=())


def test_a_third_of_the_channels_is_whole():
    assert recipe(Learnable(injection=Concat(split=1 / 3))).encoding.reserved(Widths(24, 3, 8)).tokens == 8


@pytest.mark.parametrize("channels", range(1, 24))
def test_any_whole_share_is_legal(channels):
    """Every split of the channels, of the tokens by one, of the heads by one a head; codes of 4 by 4."""
    assert (
        recipe(Learnable(injection=Concat(split=channels / 24))).encoding.reserved(Widths(24, 3, 8)).tokens == channels
    )
    for code, places, step in ((Learnable, ("key",), 3), (Sinusoidal, ("common",), 4), (Sinusoidal, ("value",), 12)):
        encoding = code(injection=Concat(split=channels / 24, places=places))
        if channels % step == 0:
            recipe(encoding)
        else:
            with pytest.raises(SpecError, match=f"a multiple of {step} "):
                recipe(encoding)


def test_parts_that_reserve_channels_come_first():
    with pytest.raises(SpecError, match="parts that reserve channels come first, got relative_bias before"):
        build(Composed(parts=(RelativeBias(), Gabor(injection=Concat(places=("key",))))), WIDTHS, GRIDS[0], 2)


GRIDS = [Grid(3, 5), Grid(5, 4, prefix=1), Grid(4, 5, prefix=2)]


def slow_layer(image, layer, padding, dense):
    """One convolution of a map (B, D, R, C), number by number, its bias included."""
    _, dim, rows, columns = image.shape
    kernel = layer.weight.shape[2]
    reach = 0 if padding == "valid" else kernel // 2
    out = []
    for row in range(rows - kernel + 1 + 2 * reach):
        for column in range(columns - kernel + 1 + 2 * reach):
            total = torch.zeros(len(image), dim, dtype=torch.float64)
            if layer.bias is not None:
                total = total + layer.bias
            for dr in range(kernel):
                for dc in range(kernel):
                    r, c = row + dr - reach, column + dc - reach
                    if padding == "circular":
                        r, c = r % rows, c % columns
                    if 0 <= r < rows and 0 <= c < columns:
                        met = image[:, :, r, c]
                        weight = layer.weight[:, :, dr, dc]
                        total = total + (met @ weight.T if dense else met * weight[:, 0])
            out.append(total)
    side = (rows - kernel + 1 + 2 * reach, columns - kernel + 1 + 2 * reach)
    return torch.stack(out, dim=2).unflatten(2, side)


def slow_norm(image, norm):
    mean, variance = image.mean((0, 2, 3), keepdim=True), image.var((0, 2, 3), keepdim=True, correction=0)
    scaled = (image - mean) / torch.sqrt(variance + norm.eps)
    return scaled * norm.weight[:, None, None] + norm.bias[:, None, None]


def slow_peg(x, conv, spec, grid):
    """The tokens after a PEG at one place."""
    image = x[:, grid.prefix :].mT.unflatten(2, (grid.rows, grid.columns))
    dense = spec.form.startswith("dense")
    out = image
    if spec.form == "separable":
        out = slow_layer(slow_layer(out, conv[0], spec.padding, False), conv[1], "zeros", True)
    elif spec.form.endswith("stack"):
        for layer in range(4):
            convolved = slow_layer(out, conv[3 * layer], spec.padding, dense)
            out = slow_norm(convolved, conv[3 * layer + 1]).clamp(min=0)
    else:
        out = slow_layer(out, conv, spec.padding, dense)
    patches = (out if spec.padding == "valid" else image + out).flatten(2).mT
    return torch.cat([x[:, : grid.prefix], patches], dim=1)


FORMS = [(form, 3) for form in ("depthwise", "dense", "separable", "depthwise_stack", "dense_stack")]


@pytest.mark.parametrize("grid", GRIDS, ids=str)
@pytest.mark.parametrize(("form", "kernel"), [*FORMS, ("depthwise", 1), ("depthwise", 5), ("dense", 1)])
@pytest.mark.parametrize("padding", ["zeros", "circular", "valid"])
def test_peg(grid, form, kernel, padding):
    if padding == "valid" and (form.endswith("stack") or kernel == 5):
        kernel = 1
    spec = PEG(places=(-1, 1), form=form, kernel=kernel, padding=padding)
    made = module(spec, grid, depth=3)
    stream = torch.Generator().manual_seed(4)
    x = torch.randn(3, grid.prefix + grid.patches, 8, dtype=torch.float64, generator=stream).requires_grad_()
    for block, place in ((0, "-1"), (2, "1")):
        out = made.tokens(Tokens(x, grid), block)
        same(made, out.x, slow_peg(x, made.peg.conv[place], spec, grid), [x])
        assert out.x.shape[1] == out.grid.prefix + out.grid.patches
        shrunk = kernel - 1 if padding == "valid" else 0
        assert out.grid == Grid(grid.rows - shrunk, grid.columns - shrunk, grid.prefix)
    assert made.tokens(Tokens(x, grid), 1).x is x


def test_a_stack_without_padding_shrinks_four_times():
    grid = Grid(9, 10, prefix=1)
    out = module(PEG(form="depthwise_stack", padding="valid"), grid).tokens(
        Tokens(torch.randn(2, 91, 8).double(), grid), 0
    )
    assert out.grid == Grid(1, 2, prefix=1)
    assert out.x.shape == (2, 3, 8)


@pytest.mark.parametrize("kernel", [3, 5])
def test_circular_padding_moves_with_the_image(kernel):
    """Exactly equivariant to moving the map around, border or not; zeros are not."""
    grid = Grid(4, 6)
    x = torch.randn(2, 24, 8, dtype=torch.float64)

    def moved(tokens):
        return tokens.unflatten(1, (4, 6)).roll((1, 2), (1, 2)).flatten(1, 2)

    for padding, holds in (("circular", True), ("zeros", False)):
        made = module(PEG(kernel=kernel, padding=padding), grid)
        one, other = (made.tokens(Tokens(some, grid), 0).x for some in (moved(x), x))
        assert torch.allclose(one, moved(other), atol=1e-12) == holds


def test_kernel_one_hears_nothing_of_position():
    grid = Grid(3, 5)
    order = torch.randperm(15, generator=torch.Generator().manual_seed(1))
    x = torch.randn(2, 15, 8, dtype=torch.float64)
    for form in ("depthwise", "dense"):
        made = module(PEG(form=form, kernel=1), grid)
        one, other = (made.tokens(Tokens(some, grid), 0).x for some in (x[:, order], x))
        assert torch.allclose(one, other[:, order], atol=1e-12)


@pytest.mark.parametrize("pool", ["token", "gap"])
def test_queries_and_keys_alone(pool):
    """CPVT: q, k of the next block from LN(x + PEG(x)), v from LN(x); x itself stays."""
    model = ViT(embed_dim=8, depth=2, num_heads=2, patch_size=4, pool=pool)
    ours = PositionedViT(model, (3, 12, 20), 3, PEG(places=(0,), into="query_key")).double()
    for value in ours.parameters():
        torch.nn.init.normal_(value, std=0.5)
    images = torch.randn(3, 3, 12, 20, dtype=torch.float64)
    x = ours.patch_embed(images)
    if model.prefix:
        x = torch.cat([ours.cls_token.expand(3, -1, -1), x], dim=1)
    for number, block in enumerate(ours.blocks):
        asked = slow_peg(x, ours.encoding.peg.conv["0"], PEG(), ours.grid) if number == 1 else x
        if number == 1 and model.prefix:
            assert torch.equal(asked[:, 0], x[:, 0])
        weight, bias = block.attn.qkv.weight, block.attn.qkv.bias
        q = block.norm1(asked) @ weight[:8].T + bias[:8]
        k = block.norm1(asked) @ weight[8:16].T + bias[8:16]
        v = block.norm1(x) @ weight[16:].T + bias[16:]
        q, k, v = (part.unflatten(2, (2, 4)).transpose(1, 2) for part in (q, k, v))
        out = (q @ k.mT / 2).softmax(3) @ v
        x = x + block.attn.proj(out.transpose(1, 2).flatten(2))
        x = x + block.mlp(block.norm2(x))
    x = ours.norm(x)
    expected = ours.head(x[:, 0] if model.prefix else x.mean(1))
    assert torch.allclose(ours(images), expected, rtol=0, atol=1e-10)


def deep(encoding, **model):
    return recipe(encoding, **{"embed_dim": 12, "depth": 3, **model})


@pytest.mark.parametrize(("encoding", "complaint"), [
    (PEG(places=(2,)), r"places must be block indices from -1 to 1 in a model of depth 3, got \[2\]"),
    (PEG(places=(-1, 0), padding="valid"), r"places must be so few that some of the grid is left"),
    (PEG(kernel=11, padding="circular"), r"kernel must be at most 9 on this grid, got 11"),
    (Composed(parts=(PEG(padding="valid"), RelativeBias())), r"where peg makes the grid smaller"),
    (Composed(parts=(RelativeBias(), PEG(padding="valid"))), r"where peg makes the grid smaller"),
    (Composed(parts=(PEG(into="query_key"), PEG(padding="valid"))), r"where peg makes the grid smaller"),
])  # fmt: skip
def test_mistakes_of_peg(encoding, complaint):
    with pytest.raises(SpecError, match=complaint):
        deep(encoding)


def test_a_smaller_grid_goes_with_a_first_code_and_other_convolutions():
    model = PositionedViT(
        ViT(embed_dim=8, depth=3, num_heads=2, patch_size=4), (3, 24, 20), 3,
        Composed(parts=(Learnable(), PEG(padding="valid"), PEG(places=(0, 1)))),
    )  # fmt: skip
    assert model(torch.randn(2, 3, 24, 20)).shape == (2, 3)


def test_bias_and_padding_exclude_each_other():
    with pytest.raises(SpecError, match="padding must be zeros or circular where into is query_key, got 'valid'"):
        PEG(padding="valid", into="query_key")


def test_names_stay_those_of_one_convolution():
    made = build(PEG(places=(-1, 3)), Widths(8, 2, 4), Grid(3, 5), 5)
    assert [name for name, _ in made.named_parameters()] == [
        f"peg.conv.{place}.{leaf}" for place in (-1, 3) for leaf in ("weight", "bias")
    ]
