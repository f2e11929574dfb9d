"""PEG against loops over patches, forward and backward, in float64, on grids that are not square."""

import pytest
import torch

from tests.anchors.pairs import module, same
from trainables.backbones import ViT
from trainables.backbones.vit_torch import PositionedViT
from trainables.data import Digits
from trainables.encodings import PEG, Composed, Learnable, RelativeBias, Widths
from trainables.encodings.build_torch import build
from trainables.encodings.encoding_torch import Grid, Tokens
from trainables.recipe import Recipe
from trainables.spec import SpecError

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


def recipe(encoding, **model):
    return Recipe(
        data=Digits(),
        model=ViT(**{"embed_dim": 12, "num_heads": 3, "depth": 3, "patch_size": 2, **model}),
        encoding=encoding,
    )


@pytest.mark.parametrize(("encoding", "complaint"), [
    (PEG(places=(2,)), r"places must be block indices from -1 to 1 in a model of depth 3, got \[2\]"),
    (PEG(places=(-1, 0), padding="valid"), r"places must be so few that some of the grid is left"),
    (PEG(kernel=11, padding="circular"), r"kernel must be at most 9 on this grid, got 11"),
    (Composed(parts=(PEG(padding="valid"), RelativeBias())), r"where peg makes the grid smaller"),
    (Composed(parts=(RelativeBias(), PEG(padding="valid"))), r"where peg makes the grid smaller"),
    (Composed(parts=(PEG(into="query_key"), PEG(padding="valid"))), r"where peg makes the grid smaller"),
])  # fmt: skip
def test_mistakes(encoding, complaint):
    with pytest.raises(SpecError, match=complaint):
        recipe(encoding)


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
