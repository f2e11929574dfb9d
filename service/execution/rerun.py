"""Trains one run again, without Ray, and compares its numbers with its outcome.

It trains with the threads and on the device that the outcome's environment names, compiled where that says so.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from service.storage.home import Home
from service.storage.outcomes import CLOCKED, NumberChange, Outcomes, compare
from trainables.recipe import Recipe, Run
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.outcome import Diverged, Measurement
from trainables.spec import LocusError

if TYPE_CHECKING:
    from trainables.training.distributed import DataParallel

SETTINGS = ("threads", "matmul_fp32_precision", "conv_fp32_precision")
"""Parts of an environment that a rerun sets again, and so does not compare."""


@dataclass(frozen=True)
class Rerun:
    """What a rerun found: how many numbers were compared, those that differ, the files that changed since."""

    key: str
    compared: int
    differences: list[NumberChange]
    changed: list[str]
    ending: str

    @property
    def equal(self) -> bool:
        """True if every number is the same, bit for bit."""
        return not self.differences


def rerun(home: Home, start: str, report: Callable[[str], None] = lambda line: None) -> Rerun:
    """Trains the run again whose key starts with `start`. `report` is called with a line for the device, for each
    difference of the environment, and for each epoch.

    Raises: LocusError for a key that names no run, a parent whose weights are gone, or a device that is not here.
    """
    outcomes = Outcomes(home)
    before = outcomes.find(start)[-1]
    run = before.run
    parents = {use: _weights(outcomes, parent, run) for use, parent in run.parents.items()}
    from trainables.training.loop import train  # torch, which a mistyped key need not wait for
    from trainables.training.runtime import runtime

    environment = before.environment
    device = _device(environment, run.key)
    threads = int(environment.get("threads", 1))
    compiled = ", compiled" if environment.get("compile") else ""
    report(f"trained again on {environment.get('device', 'cpu')} with threads {threads}{compiled}")
    now: list[Measurement] = []
    ending = "completed"
    settings, team = runtime(threads, run.recipe.optimizer.precision), _team(environment, run.recipe)
    with tempfile.TemporaryDirectory(prefix="locus-rerun-") as folder, settings:
        for line in _environment_differences(environment, device):
            report(line)
        with closing(train(run, Path(folder), device, parents=parents, team=team, data=home.data)) as epochs:
            for measured in epochs:
                if isinstance(measured, Diverged):
                    ending = "diverged"
                    break
                now.append(measured)
                report(f"epoch {measured.epoch}/{run.recipe.optimizer.epochs}")
    differences = compare(before.curve, {measured.epoch: measured.values for measured in now})
    if ending != before.outcome.kind:
        differences.append(NumberChange(len(now), f"ended {ending}, before {before.outcome.kind}", None, None))
    compared = sum(not name.startswith(CLOCKED) for measured in now for name in measured.values)
    return Rerun(run.key, compared, differences, CodeDigests()(run.recipe).changed(before.code), ending)


def _device(environment: Mapping[str, Any], key: str) -> str:
    """The device of this machine that an environment names. Raises: LocusError if it has none of that name."""
    import torch

    name = environment.get("device", "cpu")
    if name == "cpu":
        return "cpu"
    here = [torch.cuda.get_device_name(number) for number in range(torch.cuda.device_count())]
    if name not in here:
        found = ", ".join(here) or "cpu"
        raise LocusError(f"{key} was trained on {name}: a rerun must be on a machine with one, got {found}")
    return f"cuda:{here.index(name)}"


def _team(environment: Mapping[str, Any], recipe: Recipe) -> DataParallel:
    """One worker that computes batches in as many parts as an environment says, and compiled where it says so."""
    from trainables.training.distributed import SINGLE

    accumulate = recipe.optimizer.accumulate
    team = replace(SINGLE, more_parts=environment.get("accumulate", accumulate) // accumulate)
    if not environment.get("compile"):
        return team
    from trainables.training.optional.compiled import compiled

    return replace(team, wrap=compiled)


def _environment_differences(environment: Mapping[str, Any], device: str) -> Iterator[str]:
    """A line for everything in which this process differs from the environment of a run, settings apart."""
    from trainables.training.runtime import environment as environment_of

    for name, now in environment_of(device).items():
        before = environment.get(name, now)
        if before != now and name not in SETTINGS:
            yield f"{name} was {before}, is {now}; numbers may differ"
    if environment.get("workers", 0) > 1:
        yield f"trained by {environment['workers']} workers before, now by one; the last digits may differ"


def _weights(outcomes: Outcomes, parent: Run, child: Run) -> Path:
    """The newest weights of a parent. Raises: LocusError if there are none as they were written."""
    for found in reversed(outcomes.of(parent.key)):
        if outcomes.has_sound_weights(parent.key, found.name):
            return outcomes.weights(parent.key, found.name)
    raise LocusError(f"the weights of the parent {parent.key} of {child.key} are gone or damaged; run its study again")
