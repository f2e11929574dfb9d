"""Tries a recipe before anything is spent: its model is built, and two images go forward and backward.

An encoding of a user's own is held to the promises that a wrong answer would break without a word.
"""

from __future__ import annotations

import math
import re
from pathlib import Path

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorDeviceMismatchError, FakeTensorMode

from trainables.data.splits_torch import Reading, load
from trainables.encodings import CodeSpec, Grid, HeadsSpec, OwnEncoding
from trainables.launch.errors import place, sentence
from trainables.own import OwnSpec
from trainables.recipe import Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.rng_torch import torch_stream
from trainables.sentence import did_you_mean
from trainables.source import load as run_text
from trainables.source import noted_reads
from trainables.spec import LocusError
from trainables.training.init import init_weights
from trainables.training.loss import Objective
from trainables.training.parameters import set_trainable

IMAGES = 2
NEAR = 1e-8
"""How far two results in float64 may lie apart where they must be equal."""


class TrialStepError(LocusError):
    """A recipe whose model cannot train, or whose encoding breaks a promise."""


def try_step(recipe: Recipe, data: Path | None = None) -> list[str]:
    """Builds a recipe's model with random weights, and computes a step on two random images, in float64.

    Returns what looks odd and need not be wrong, a sentence each.

    Images that the user's own code makes are loaded too; others are random. `data`: the folder of data sets.
    Raises: TrialStepError with one sentence; it names the user's own file and line where the error is there.
    Cost: 10 ms for one block, a second for a DeiT.
    """
    try:
        sources = {part.kind.partition(":")[0]: part.source for part in recipe.own_parts}
        if isinstance(recipe.data, OwnSpec) and recipe.data.fingerprint:  # it says what counts of files that are read
            del sources[recipe.data.kind.partition(":")[0]]
        with noted_reads(sources) as read:
            for file, source in sources.items():
                run_text(file, source, again=True)
            remarks = _stepped(recipe, data)
        for path, file in read.items():
            how = f"write its numbers into {file}; a data set declares a fingerprint of it"
            why = f"{file} reads {path}, which counts for no answer: if it changes, nothing is trained again"
            remarks.append(f"{why}. So {how}")
        return remarks
    except TrialStepError:
        raise
    except Exception as error:
        raise TrialStepError(_hinted(recipe, sentence(error))) from error


def _hinted(recipe: Recipe, error: str) -> str:
    """Returns an error with what may be meant: another parameter, the rows of prefix tokens, a `return`."""
    shape, grid = recipe.shapes[0], Grid.of(recipe.shapes[0])
    if wrong := re.search(r"AttributeError: 'Declared\w+' object has no attribute '(\w+)'", error):
        names: list[str] = []
        for spec in [part.spec for part in recipe.own_modules if isinstance(part, OwnEncoding)]:
            if isinstance(spec, CodeSpec):
                names += spec.params(shape.widths.dim, grid)
            elif isinstance(spec, HeadsSpec):
                names += spec.params(shape.widths, grid, shape.depth)
        near = f"{', '.join(names) or 'none'}{did_you_mean(wrong[1], names)}"
        return error.replace(wrong[0], f"p({wrong[1]!r}) must name one of {near}")
    if f"; got shape ({grid.patches}, " in error and grid.prefix:
        return f"{error}; at.prefixed(code) adds the rows of prefix tokens"
    return f"{error}; did code() return?" if error.endswith("got NoneType") else error


def _stepped(recipe: Recipe, data: Path | None) -> list[str]:
    if isinstance(recipe.data, OwnSpec):
        load(recipe.data, Reading(data))
    model = build_model(recipe)
    init_weights(model, 0)
    set_trainable(model, recipe.trainable)
    objective = Objective(Run(recipe=recipe, seed=0), model).double()
    stream = torch_stream(0, "trial step")
    images = torch.rand(IMAGES, *recipe.data.size, dtype=torch.float64, generator=stream)
    targets = torch.arange(IMAGES) % recipe.data.outputs
    if recipe.data.metric == "r2":
        targets = torch.zeros(IMAGES, recipe.data.outputs, dtype=torch.float64)
    loss = objective(images, targets, **objective.loss_inputs(torch.arange(IMAGES), 0))
    first = loss.item()
    _require(math.isfinite(first), recipe, "a finite loss at its initial weights", f"a loss of {first}")
    torch.autograd.backward(loss)
    learning = {name: value for name, value in model.named_parameters() if value.requires_grad}
    unread = [name for name, value in learning.items() if name.startswith("encoding.") and value.grad is None]
    model.eval()
    with torch.inference_mode():
        for name, value in learning.items():
            if name.startswith("encoding."):  # what begins at zero would hide what is wrong
                value.add_(torch.randn(value.shape, dtype=value.dtype, generator=stream), alpha=0.1)
        read, whole = model(images), model.output(model.features(images))
        _same(recipe, model(images), read, "the same when called twice (random numbers of a step are at.drawn)")
        _same(recipe, read, whole, "the same for the rows that are read as for all rows (in_heads, bias)")
        alone = torch.cat([model(images[:1]), model(images[1:])])
        _same(recipe, alone, read, "the same for an image alone as in a batch")
    idle = [f"{name} gets no gradient: nothing reads it" for name in unread]
    return [*idle, *(_left_behind(model, images) if recipe.own_modules else ())]


def _left_behind(model: nn.Module, images: Tensor) -> list[str]:
    """Returns what a GPU would refuse: a tensor that is made on the CPU.

    Outputs are computed with tensors that say that they are on a GPU, and hold no values. So no GPU is needed, and
    nothing is known of what comes after a step that needs values.
    """
    with FakeTensorMode(allow_non_fake_inputs=True) as mode, torch.no_grad():

        def moved(value: Tensor) -> Tensor:
            return mode.from_tensor(value.detach()).to("cuda")

        values = {name: moved(value) for name, value in model.named_buffers()}
        values |= {name: nn.Parameter(moved(value), requires_grad=False) for name, value in model.named_parameters()}
        try:
            torch.func.functional_call(model, values, (moved(images),))
        except FakeTensorDeviceMismatchError as error:
            must = "a tensor must be made where the others are (device=at.xy.device)"
            return [f"{must}, got one on the CPU, which a GPU refuses{place(error)}"]
        except Exception:
            return []
    return []


def _same(recipe: Recipe, first: Tensor, second: Tensor, must: str) -> None:
    gap = float((first - second).abs().max())
    _require(gap <= NEAR, recipe, f"outputs that are {must}", f"a difference of {gap:.3g}")


def _require(holds: bool, recipe: Recipe, must: str, got: str) -> None:
    if not holds:
        raise TrialStepError(f"encoding ({recipe.encoding.label}) must give {must}, got {got}")
