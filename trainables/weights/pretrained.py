"""Loads weights from a file or from timm into our models.

Our backbones keep timm's names. Two things have other names here: timm's table of positions, which is an encoding, and
the norm before the head.
"""

from __future__ import annotations

import difflib
import hashlib
import math
import re
from collections.abc import Mapping
from typing import Any

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
from trainables.weights.load import HEADS, load_weights

TABLE, TABLES = "pos_embed", {"tnt": "patch_pos"}
"""timm's name of the table of positions, and that of some kinds of backbones."""

OPTIONAL = {
    "volo": r"aux_head\.",
    "twins": r"pos_block\.",
    "swin": r".*relative_position_bias_table$",
    "vit": r"mask_token$|decoder_(embed|pos_embed|blocks|norm|pred)\b",
}
"""Weights that a backbone need not have a place for, as patterns: VOLO's second head, its own positions where a recipe
has none, what MAE's pre-training alone needs."""
REGISTERS, METAS_REGISTERS = "reg_token", "register_tokens"
"""The name of register tokens in timm, which is ours, and in Meta's files, whose tables have no rows for them."""

PREFIX = ("cls_token", "dist_token")
NORMS = ("norm.", "fc_norm.")
"""The last norm: before the average of the patches, or after it."""


FREE = ("encoding.", *PREFIX, *HEADS, *NORMS)
"""How names begin that may be without a place: another encoding, other tokens, heads, the norm at the other place."""


def load_pretrained(
    model: Host, recipe: Recipe, init: FromFile | FromTimm, sources: dict[str, Any] | None = None
) -> list[str]:
    """Loads the weights that a recipe's `init` names; the names that were loaded.

    `sources`: the checksum of what timm fetched is added here, and what timm says of the images that it was trained on:
    mean and std of their pixels, and their rows and columns. Of a file: where in it the weights stood, and what was
    left out. A table is resampled where the recipe's images are others.
    Raises: SpecError if the weights do not fit; LocusError if they cannot be read, or have another checksum.
    """
    sources = {} if sources is None else sources
    table = TABLES.get(recipe.model.kind, TABLE)
    if isinstance(init, FromFile):
        read = read_weights(init.path, init.sha256, {*model.state_dict(), table}, init.entry)
        weights, context = read.weights, "init.path must name a file"
        sources |= {"init_entry": read.entry} if read.entry else {}
    else:
        read, weights, context = None, fetch_timm(init.name), "init.name must name a model"
        config = timm.models.get_pretrained_cfg(init.name)
        sources["init_sha256"] = checksum(weights)
        sources["init_mean"], sources["init_std"] = list(config.mean), list(config.std)
        sources["init_image_size"] = list(config.input_size[1:])
        if init.sha256 is not None and init.sha256 != sources["init_sha256"]:
            got = sources["init_sha256"]
            raise LocusError(f"timm's weights of {init.name} must have the SHA-256 {init.sha256}, got {got}")
    left_out = [] if init.part == "encoding" else _left_out(weights, model, recipe.model.kind, context)
    if read is not None and (left_out := sorted({*read.left_out, *left_out})):
        sources["init_left_out"] = left_out
    return load_weights(model, to_our_names(weights, model, recipe, init.part), init.part, context)


def fetch_timm(name: str) -> dict[str, Tensor]:
    """Returns the state dict of a pretrained model of timm's, from its cache or the network.

    Raises: SpecError for a name that timm has no weights of; LocusError if they cannot be fetched.
    """
    names = timm.list_pretrained()
    if name not in names:
        begun = [other for other in names if other.startswith(name)]
        near = ", ".join((begun or difflib.get_close_matches(name, names, n=3, cutoff=0))[:3])
        raise SpecError(f"init.name must be one of timm's models with weights, such as {near}, got {name!r}")
    try:
        with torch.random.fork_rng(devices=[]):  # timm draws weights before it loads them
            weights: dict[str, Tensor] = timm.create_model(name, pretrained=True).state_dict()
    except (OSError, RuntimeError) as error:
        why = str(error).partition("\n")[0]
        must = f"timm's weights of {name} could not be fetched ({why})"
        raise LocusError(f"{must}; give init.kind from_file with a checkpoint") from None
    return weights


def checksum(weights: Mapping[str, Tensor]) -> str:
    """Returns the SHA-256 of a state dict: of its names, shapes and numbers, whatever file they come from."""
    text = hashlib.sha256()
    for name, value in sorted(weights.items()):
        text.update(f"{name} {value.dtype} {tuple(value.shape)}\n".encode())
        text.update(value.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
    return text.hexdigest()


def to_our_names(weights: dict[str, Tensor], model: Host, recipe: Recipe, part: str) -> dict[str, Tensor]:
    """Renames weights as in our model: timm's table becomes that of a learnable encoding, or is left out.

    So a model without a table keeps the backbone that was trained with one, as all do of which `part` is the backbone.
    Meta's register tokens get timm's name.
    Source: Gabor paper 4 (DeiT's table removed). Differs: nothing.
    """
    weights = dict(weights)
    table = weights.pop(TABLES.get(recipe.model.kind, TABLE), None)
    our_table = _our_table(model, recipe)
    if table is not None and our_table is not None and part != "backbone":
        tokens, registers = sum(name in weights for name in PREFIX), weights.get(REGISTERS)
        prefix = (tokens, 0 if registers is None else registers.shape[1])
        weights[our_table] = _on_our_grid(table, prefix, recipe)
    if METAS_REGISTERS in weights:
        weights[REGISTERS] = weights.pop(METAS_REGISTERS)
    for norm, other in (NORMS, NORMS[::-1]):
        for leaf in ("weight", "bias"):
            if norm + leaf in weights:
                weights.setdefault(other + leaf, weights[norm + leaf])
    return weights


def _our_table(model: Host, recipe: Recipe) -> str | None:
    """Returns the name of our table of positions: of the first learnable encoding with one, added before the blocks."""
    if not isinstance(model.encoding, Composition):
        return None
    for name, part in zip(model.encoding.parts, parts_of(recipe.encoding), strict=False):
        injection = part.injection if isinstance(part, Learnable) else None
        if isinstance(injection, Add) and injection.codes(recipe.shapes[0].depth) == (("common", 0),):
            return f"encoding.{name}.table" if injection.shared else f"encoding.{name}.common_0.table"
    return None


def _on_our_grid(table: Tensor, prefix: tuple[int, int], recipe: Recipe) -> Tensor:
    """Returns a table of timm's on our grid: resampled where the grids differ, rows of prefix tokens kept.

    A prefix token that had no row there gets zeros. `prefix`: how many class (and distillation) tokens and how many
    register tokens there were. Shapes: (1, n, D), or (1, R, C, D) as VOLO has it, to (N, D).
    Source: DeiT (bicubic, no antialiasing). Differs: nothing.
    """
    (shape,) = recipe.shapes
    table = table[0].flatten(0, -2)
    ours = Grid.of(shape)
    theirs = _their_grid(len(table), sum(prefix), ours)
    resampled = resampled_table(table, theirs, ours)
    their_rows, rows = resampled[: theirs.prefix], resampled.new_zeros(shape.prefix, resampled.shape[1])
    first = shape.prefix - getattr(recipe.model, "registers", 0)
    for target, source in ((rows[:first], their_rows[: prefix[0]]), (rows[first:], their_rows[prefix[0] :])):
        count = min(len(target), len(source))
        target[:count] = source[:count]
    return torch.cat([rows, resampled[theirs.prefix :]])


def _their_grid(count: int, prefix: int, ours: Grid) -> Grid:
    """Returns the grid of a table's rows and how many of them are prefix tokens', if any: a square, or ours.

    Raises: SpecError if neither fits, or both: the number of rows does not tell 4 x 16 from 8 x 8.
    """
    for rows in (prefix, 0):
        side = math.isqrt(max(count - rows, 0))
        fits = ours.patches == count - rows
        if side * side == count - rows:
            if fits and side != ours.rows:
                both = f"{side} x {side} patches and of {ours.rows} x {ours.columns}"
                raise SpecError(f"init.part must be 'backbone' where a table may be one of {both}, got {count} rows")
            return Grid(side, side, rows)
        if fits:
            return Grid(ours.rows, ours.columns, rows)
    must = f"of a square grid, or of one of {ours.rows} x {ours.columns}"
    raise SpecError(f"init must give a table {must}, got {count} rows")


def _left_out(weights: dict[str, Tensor], model: Host, kind: str, context: str) -> set[str]:
    """Returns what of the weights our backbone need not have a place for, in short. Raises: SpecError for others."""
    ours = model.state_dict()
    names = {*ours, TABLES.get(kind, TABLE), *([METAS_REGISTERS] if REGISTERS in ours else [])}
    others = [name for name in weights if name not in names and not name.startswith(FREE)]
    optional = {name for name in others if kind in OPTIONAL and re.match(OPTIONAL[kind], name)}
    strange = next((name for name in others if name not in optional), None)
    if strange is not None:
        registers = strange in (REGISTERS, METAS_REGISTERS)
        why = ", register tokens, which a vit has where model.registers is their number" if registers else ""
        raise SpecError(f"{context} of weights that this model has a place for, got {strange}{why}")
    return {name.partition(".")[0] for name in optional}
