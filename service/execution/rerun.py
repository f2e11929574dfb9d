"""One run trained again, without Ray, and compared number by number with its outcome."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from service.storage.home import Home
from service.storage.outcomes import CLOCKED, Difference, Outcomes, compare
from trainables.recipe import Run
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.outcome import Diverged, Measurement
from trainables.spec import LocusError


@dataclass(frozen=True)
class Rerun:
    """What a rerun showed: how many numbers were compared, those that differ, the files that changed since."""

    key: str
    compared: int
    differences: list[Difference]
    changed: list[str]
    ending: str

    @property
    def equal(self) -> bool:
        """True where every number came out again, bit for bit."""
        return not self.differences


def rerun(home: Home, start: str, say: Callable[[str], None] = lambda line: None) -> Rerun:
    """Trains the run whose key begins so again. `say` hears each epoch.

    Raises: LocusError for a key that names no run, or a parent whose weights are gone.
    """
    import torch

    from trainables.training.loop import train

    outcomes = Outcomes(home)
    before = outcomes.find(start)[-1]
    run = before.run
    parents = {use: _weights(outcomes, parent, run) for use, parent in run.parents.items()}
    torch.set_num_threads(int(before.environment.get("threads", 1)))
    now: list[Measurement] = []
    ending = "completed"
    with tempfile.TemporaryDirectory(prefix="locus-rerun-") as folder:
        for said in train(run, Path(folder), parents=parents):
            if isinstance(said, Diverged):
                ending = "diverged"
                break
            now.append(said)
            say(f"epoch {said.epoch}/{run.recipe.optimizer.epochs}")
    differences = compare(before.outcome.curve, now)
    if ending != before.outcome.kind:
        differences.append(Difference(len(now), f"ended {ending}, before {before.outcome.kind}", None, None))
    compared = sum(not name.startswith(CLOCKED) for measured in now for name in measured.values)
    return Rerun(run.key, compared, differences, CodeDigests()(run.recipe).changed(before.code), ending)


def _weights(outcomes: Outcomes, parent: Run, child: Run) -> Path:
    """The newest weights of a parent."""
    for found in reversed(outcomes.of(parent.key)):
        weights = outcomes.weights(parent.key, found.name)
        if weights.exists():
            return weights
    raise LocusError(f"the weights of the parent {parent.key} of {child.key} are gone; run its study again")
