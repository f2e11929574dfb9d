"""What a probe looks at: one model of a run, with its codes and some images, all in float64.

A code is what an encoding adds to, or puts beside, the token of each patch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from trainables.backbones.backbone_torch import Host
from trainables.data.splits_torch import Reading, load
from trainables.encodings.encoding import Grid, Shape
from trainables.encodings.encoding_torch import Code, Composition, PositionEncoding, Tokens
from trainables.encodings.injection_torch import OwnCodes
from trainables.recipe import Recipe, Run
from trainables.recipe.findings import Findings
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.checkpoint import read
from trainables.training.loop import build_model_with_weights
from trainables.training.normalize import normalizer

IMAGES = 32
"""How many images a probe of attention looks at: the first ones of the validation set, the same for all models."""


@dataclass(frozen=True)
class Subject:
    """A model in float64, the recipe that made it, and the seed of its run. `data`: the folder of all data."""

    recipe: Recipe
    model: Host
    seed: int = 0
    data: Path | None = None

    @property
    def grid(self) -> Grid:
        """The grid of the tokens before the first block, with their prefix."""
        return Grid.of(self.recipe.shapes[0])

    @cached_property
    def codes(self) -> Tensor | None:
        """The code of each patch at token level, where the encoding has one. Shapes: (P, D)."""
        return codes_of(self.model, self.recipe.shapes[0])

    @cached_property
    def images(self) -> Tensor:
        """The first validation images as the model sees them. Shapes: (IMAGES or fewer, channels, rows, columns)."""
        split = load(self.recipe.data, Reading(self.data, seed=self.seed)).validation
        (pixels, _), *_ = split.batches([torch.arange(min(IMAGES, len(split)))], torch.float64)
        normalized: Tensor = normalizer(self.recipe, torch.device("cpu"), torch.float64)(pixels)
        return normalized


def no_code(subject: Subject) -> Findings:
    """Finds nothing, because the encoding has no code of the tokens."""
    encoding = subject.recipe.encoding.label
    return Findings(note=f"not measured: {encoding} adds nothing to the tokens before the first block")


def initial(run: Run, parent: Path | None, data: Path | None, environment: Mapping[str, Any]) -> Subject:
    """Returns a run's model before its first step. `environment`: of its answer, which names weights that timm fetched.

    Raises: LocusError if weights that it starts from are gone, or are other ones today.
    """
    sources: dict[str, Any] = {}
    model = build_model_with_weights(run.recipe, run.seed, parent, sources)
    for name, now in sources.items():
        if environment.get(name, now) != now:
            raise SpecError(f"{name} must be that of the run, {environment[name]}, got {now}")
    return _subject(run, model, data)


def trained(run: Run, weights: Path, data: Path | None) -> Subject:
    """Returns a run's model with the weights that were kept. Raises: LocusError if their file is damaged."""
    model = build_model(run.recipe).double()  # before weights are loaded, which may be in float64
    model.load_state_dict(read(weights))
    return _subject(run, model, data)


def _subject(run: Run, model: Host, data: Path | None) -> Subject:
    return Subject(run.recipe, model.double().eval(), run.seed, data)


def parts_of(encoding: PositionEncoding) -> Iterator[PositionEncoding]:
    """Yields the parts of an encoding, those of nested compositions included."""
    if isinstance(encoding, Composition):
        for name in encoding.parts:
            yield from parts_of(encoding.part(name))
    else:
        yield encoding


@torch.no_grad()
def codes_of(model: Host, shape: Shape | None = None) -> Tensor | None:
    """Returns the code of each patch before the first block; None if no part of the encoding is a code of the tokens.

    What parts add is summed; what they put beside the content are further channels. Parts of another kind are left
    out: those inside attention, and convolutions, whose result depends on the image.
    `shape`: the model as its encoding sees it (`recipe.shapes[0]`); by default that of a ViT.
    Shapes: to (P, D), all channels of a token, or only those beside the content where nothing is added to it.
    """
    encoding = model.encoding[0] if isinstance(model.encoding, nn.ModuleList) else model.encoding  # of the first stage
    assert isinstance(encoding, Composition)
    grid, width = (model.grid, int(model.embed_dim)) if shape is None else (Grid.of(shape), shape.widths.dim)
    content = width - encoding.reserved.tokens
    zeros = next(model.parameters()).new_zeros(1, grid.tokens, content)
    before = t = Tokens(zeros, grid)
    added = False
    for part in parts_of(encoding):
        if isinstance(part, Code | OwnCodes):
            channels, earlier = t.x.shape[2], t
            t = part.tokens(t, 0)
            added = added or (t is not earlier and t.x.shape[2] == channels)
    if t is before:
        return None
    return t.x[0, grid.prefix :, 0 if added else content :].detach()
