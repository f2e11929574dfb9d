"""Begins with weights from elsewhere: a file's, or those that timm fetches, in the names of our models.

Our backbones keep timm's names, so only what timm says otherwise is brought over: its table of positions, which here is
an encoding, and the norm before the read-out.
"""

from __future__ import annotations

import difflib
import math

import timm
import torch
from torch import Tensor

from trainables.backbones.backbone_torch import Host
from trainables.encodings import Add, Learnable, parts_of
from trainables.encodings.encoding_torch import Composition, Grid
from trainables.encodings.resample_torch import resampled_table
from trainables.recipe import FromFile, FromTimm, Recipe
from trainables.spec import LocusError, SpecError
from trainables.weights.files import read_weights
from trainables.weights.load import HEADS, take

TABLES = {"tnt": "patch_pos"}
"""How timm calls a backbone's table of positions, by kind, where it is not `pos_embed`."""

SPARE = {"volo": "aux_head.", "twins": "pos_block.", "swin": "relative_position_bias_table"}
"""What a backbone may do without: VOLO's second head, position of its own that a recipe leaves out."""

PREFIX = ("cls_token", "dist_token")
NORMS = ("norm.", "fc_norm.")
"""The last norm: before the read-out's average, or after it."""


def start_from(model: Host, recipe: Recipe, start: FromFile | FromTimm) -> None:
    """Gives a model the weights that its recipe starts from.

    Raises: SpecError where they do not fit; LocusError where they cannot be had.
    """
    if isinstance(start, FromFile):
        weights, giver = read_weights(start.path, start.sha256), "init.path must name a file"
    else:
        weights, giver = fetched(start.name), "init.name must name a model"
    weights = renamed(weights, model, recipe)
    if start.part != "encoding":
        _refuse_strangers(weights, model, SPARE.get(recipe.model.kind), giver)
    take(model, weights, start.part, giver)


def fetched(name: str) -> dict[str, Tensor]:
    """The state dict of a pretrained model of timm's, from its cache or the network.

    Raises: SpecError for a name that timm has no weights of; LocusError where they cannot be fetched.
    """
    known = timm.list_pretrained()
    if name not in known:
        begun = [other for other in known if other.startswith(name)]
        near = ", ".join((begun or difflib.get_close_matches(name, known, n=3, cutoff=0))[:3])
        raise SpecError(f"init.name must be one of timm's models with weights, such as {near}, got {name!r}")
    try:
        with torch.random.fork_rng(devices=[]):  # timm draws weights before it loads them
            weights: dict[str, Tensor] = timm.create_model(name, pretrained=True).state_dict()
    except (OSError, RuntimeError) as error:
        why = str(error).partition("\n")[0]
        raise LocusError(
            f"timm's weights of {name} could not be fetched ({why}); give init.kind from_file with a checkpoint"
        ) from None
    return weights


def renamed(weights: dict[str, Tensor], model: Host, recipe: Recipe) -> dict[str, Tensor]:
    """Weights in the names of our model: timm's table becomes that of a learnable encoding, or is dropped.

    So a model without a table keeps the backbone that was trained with one. Source: Gabor paper 4 (DeiT's table removed).
    Differs: nothing.
    """
    weights = dict(weights)
    table = weights.pop(TABLES.get(recipe.model.kind, "pos_embed"), None)
    mine = _own_table(model, recipe)
    if table is not None and mine is not None:
        weights[mine] = _on_our_grid(table, sum(name in weights for name in PREFIX), recipe)
    for norm, other in (NORMS, NORMS[::-1]):
        for leaf in ("weight", "bias"):
            if norm + leaf in weights:
                weights.setdefault(other + leaf, weights[norm + leaf])
    return weights


def _own_table(model: Host, recipe: Recipe) -> str | None:
    """The name of our table of positions: of the first learnable encoding with one table, added before the blocks."""
    if not isinstance(model.encoding, Composition):
        return None
    for name, part in zip(model.encoding.parts, parts_of(recipe.encoding), strict=False):
        enters = part.injection if isinstance(part, Learnable) else None
        if isinstance(enters, Add) and enters.codes(recipe.shapes[0].depth) == (("common", 0),):
            return f"encoding.{name}.table" if enters.shared else f"encoding.{name}.common_0.table"
    return None


def _on_our_grid(table: Tensor, prefix: int, recipe: Recipe) -> Tensor:
    """A table of timm's on our grid: resampled where the grids differ, rows of prefix tokens kept.

    A prefix token that had no row there gets zeros. Shapes: (1, n, D), or (1, R, C, D) as VOLO has it, to (N, D).
    Source: DeiT (bicubic, no antialiasing). Differs: nothing.
    """
    (shape,) = recipe.shapes
    table = table[0].flatten(0, -2)
    ours = Grid.of(shape)
    theirs = _their_grid(len(table), prefix, ours)
    moved = resampled_table(table, theirs, ours)
    rows = moved.new_zeros(shape.prefix, moved.shape[1])
    kept = min(theirs.prefix, shape.prefix)
    rows[:kept] = moved[:kept]
    return torch.cat([rows, moved[theirs.prefix :]])


def _their_grid(count: int, prefix: int, ours: Grid) -> Grid:
    """The grid of a table's rows and how many of them are prefix tokens': a square, else ours.

    Some of timm's tables have no rows for the prefix tokens that their model has.
    """
    for rows in (prefix, 0):
        side = math.isqrt(max(count - rows, 0))
        for grid in (Grid(side, side, rows), Grid(ours.rows, ours.columns, rows)):
            if grid.patches == count - rows:
                return grid
    must = f"of a square grid, or of one of {ours.rows} x {ours.columns}"
    raise SpecError(f"init must give a table {must}, got {count} rows")


def _refuse_strangers(weights: dict[str, Tensor], model: Host, spare: str | None, giver: str) -> None:
    """Complains about weights that our backbone has no place for: without them it would be another model."""
    free = ("encoding.", *PREFIX, *HEADS, *NORMS)
    ours = model.state_dict()
    strangers = (name for name in weights if name not in ours and not name.startswith(free))
    strange = next((name for name in strangers if spare is None or spare not in name), None)
    if strange is not None:
        raise SpecError(f"{giver} of weights that this model has a place for, got {strange}")
