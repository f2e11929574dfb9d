"""Projections of a code: what the first block makes of it for queries, keys and values, and how much of it is edges."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.nn.functional import linear

from trainables.backbones.backbone_torch import Host
from trainables.backbones.vit_torch import PositionedViT
from trainables.encodings.encoding import Grid, ReservedChannels
from trainables.probes.inputs.arrays import Array, ProbeError, codes_on, float64, places
from trainables.probes.inputs.subject import Subject, no_code
from trainables.recipe.findings import Findings

PARTS = ("p", "q", "k", "v")
"""The code itself, and its projections."""


@torch.no_grad()
def projections(model: Host, codes: Any) -> dict[str, Array]:
    """Returns a code that is added to the tokens, and its share of the first block's queries, keys, values, by PARTS.

    Shapes: codes (P, D), without prefix tokens; to (P, D) each, heads one after the other. Raises: ProbeError for
    another backbone, or a code that is not added to all channels.
    Source: Gabor paper fig. 9 (pos, pos U_q, pos U_k, pos U_v). Differs: the first norm's mean over channels and its
    weights come before U, because U was trained behind them; its deviation, which depends on the image, is left out.
    """
    if not isinstance(model, PositionedViT) or model.encoding.reserved != ReservedChannels():
        raise ProbeError("codes are projected in vit, where they are added to all channels of the tokens")
    norm, qkv = model.blocks[0].norm1, model.blocks[0].attn.qkv
    position = torch.as_tensor(float64(codes), dtype=qkv.weight.dtype)
    normed = (position - position.mean(dim=1, keepdim=True)) * norm.weight
    parts = (codes, *linear(normed, qkv.weight).chunk(3, dim=1))
    return {name: float64(part) for name, part in zip(PARTS, parts, strict=True)}


def edge_share(codes: Any, grid: Grid) -> Array:
    """Returns the share of each channel's variance over the patches that markers of the four edges explain.

    A channel that is the same everywhere has 0. Shapes: codes (P, D), without prefix tokens, to (D,).
    Source: Gabor paper eq. 8 (the markers). Differs: the paper shows pictures, and gives no share.
    """
    maps = codes_on(codes, grid)
    column, row = places(grid).T
    edges = np.stack([column == 0, column == grid.columns - 1, row == 0, row == grid.rows - 1], axis=1).astype(float)
    design = np.column_stack([np.ones(grid.patches), edges])
    left = ((maps - design @ np.linalg.lstsq(design, maps, rcond=None)[0]) ** 2).sum(axis=0)
    total = ((maps - maps.mean(axis=0)) ** 2).sum(axis=0)
    flat = total <= 1e-24 * np.maximum((maps**2).sum(axis=0), 1e-300)
    share: Array = np.where(flat, 0.0, 1 - left / np.where(flat, 1.0, total))
    return share


def probe(subject: Subject) -> Findings:
    """Returns the mean share of edges, by part; `v_above_qk` is v minus the mean of q and k. `maps`: all channels."""
    if subject.codes is None:
        return no_code(subject)
    try:
        parts = projections(subject.model, subject.codes)
    except ProbeError as error:
        return Findings(note=str(error))
    shares = {name: edge_share(part, subject.grid) for name, part in parts.items()}
    values = {name: float(share.mean()) for name, share in shares.items()}
    values["v_above_qk"] = values["v"] - (values["q"] + values["k"]) / 2
    grid = subject.grid
    maps = np.stack([*parts.values()]).reshape(len(PARTS), grid.rows, grid.columns, -1)
    return Findings(values, {"shares": np.stack([*shares.values()]), "maps": maps.astype(np.float32)})
