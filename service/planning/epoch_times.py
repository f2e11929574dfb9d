"""How long epochs take, from those that were measured, and how long runs take side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from statistics import fmean, median

from trainables.recipe import Recipe
from trainables.spec import digest

TIMELESS = (
    "lr", "weight_decay", "epochs", "schedule", "warmup", "min_lr", "betas", "eps", "layer_decay", "lr_base_size",
    "momentum", "nesterov", "adjust_lr_fn", "ema_warmup",
)  # fmt: skip
"""Values of an optimizer that change no time of an epoch."""


@dataclass(frozen=True)
class RunTime:
    """How long an epoch of one run took.

    `work`: runs of the same work have the same; `epochs`: those that the whole run has. Units: `epoch_s` seconds.
    """

    work: str
    epochs: int
    epoch_s: float


class Works:
    """The work of a recipe, which runs of one time share; each recipe is looked at once, for a study asks often."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Recipe, str]] = {}

    def __call__(self, recipe: Recipe) -> str:
        """Recipes that differ only in what changes no time, such as their rate, have the same."""
        known = self._known.get(id(recipe))
        if known is None:
            known = self._known[id(recipe)] = (recipe, _work(recipe))  # the recipe is kept, and so is its id
        return known[1]


def run_time(
    recipe: Recipe, curve: Iterable[Mapping[str, float]], ended: bool, works: Callable[[Recipe], str] | None = None
) -> RunTime | None:
    """From the metrics of each epoch; None where no epoch was measured.

    Of a run that has ended the mean counts, because the last epoch also takes the time of the tests, which may be
    longer than several epochs. Of a run that goes on it is the median, because the first epoch may take much longer
    than the next ones.
    """
    seconds = [values["time/epoch_s"] for values in curve if "time/epoch_s" in values]
    if not seconds:
        return None
    work = (works or _work)(recipe)
    return RunTime(work, recipe.optimizer.epochs, fmean(seconds) if ended else median(seconds))


class EpochTimes:
    """The time of an epoch of a recipe: of the same work where a run of it was measured, else the usual one.

    Of the same work the median counts, because a run may have waited for the machine. The usual time is the mean over
    the kinds of work, because a sum is predicted with it. A kind counts by the epochs of its runs: the only epoch of a
    short run also takes the time of its tests, and says little of the epochs of a long one. Before the first epoch it
    is `earlier`, that of other studies.
    """

    def __init__(
        self,
        known: Iterable[RunTime | None],
        earlier: float | None = None,
        works: Callable[[Recipe], str] | None = None,
    ) -> None:
        self._works = works or _work
        kinds: dict[str, list[RunTime]] = {}
        for one in known:
            if one is not None:
                kinds.setdefault(one.work, []).append(one)
        self._alike = {work: median(one.epoch_s for one in some) for work, some in kinds.items()}
        epochs = [fmean(one.epochs for one in some) for some in kinds.values()]
        self.usual = fmean(self._alike.values(), weights=epochs) if kinds else earlier

    def __call__(self, recipe: Recipe) -> float | None:
        """Seconds; None where none are known."""
        return self._alike.get(self._works(recipe), self.usual)


def _work(recipe: Recipe) -> str:
    values = {name: value for name, value in recipe.identity().items() if name != "init"}
    steps = {name: value for name, value in values["optimizer"].items() if name not in TIMELESS}
    return digest({**values, "optimizer": steps})


def side_by_side(seconds: Sequence[float], max_concurrent: int) -> float:
    """How long runs of these times take, each begun as soon as one before it has ended."""
    ends = [0.0] * max(1, min(max_concurrent, len(seconds)))
    for one in seconds:
        heapreplace(ends, ends[0] + one)
    return max(ends)
