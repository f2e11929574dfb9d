"""How long epochs take, from those that were measured, and how long runs take side by side."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean, median

from trainables.recipe import Recipe
from trainables.spec import digest

TIMELESS = (
    "lr", "weight_decay", "epochs", "schedule", "warmup", "min_lr", "betas", "eps", "layer_decay", "lr_base_size",
)  # fmt: skip
"""Values of an optimizer that change no time of an epoch."""


class EpochTimes:
    """The time of an epoch of a recipe: of the same work where a run of it was measured, else the usual one.

    `known`: the recipe of each run, and the time of its epochs (`epoch_s`), None where none was measured. Of the same
    work the median counts, because a run may have waited for the machine. The usual time is the mean over the kinds of
    work, because a sum is predicted with it.
    """

    def __init__(self, known: Iterable[tuple[Recipe, float | None]]) -> None:
        measured: dict[str, list[float]] = {}
        for recipe, seconds in known:
            if seconds is not None:
                measured.setdefault(_work(recipe), []).append(seconds)
        self._alike = {work: median(some) for work, some in measured.items()}
        self.usual = fmean(self._alike.values()) if self._alike else None

    def __call__(self, recipe: Recipe) -> float | None:
        """Seconds; None where nothing was measured."""
        return self._alike.get(_work(recipe), self.usual)


def epoch_s(curve: Iterable[Mapping[str, float]], ended: bool) -> float | None:
    """The seconds of an epoch of one run; None where no epoch was measured.

    Of a run that has ended it is the mean, because the last epoch also takes the time of the tests, which may be longer
    than several epochs. Of a run that goes on it is the median, because the first epoch may take much longer than the
    next ones.
    """
    seconds = [values["time/epoch_s"] for values in curve if "time/epoch_s" in values]
    return (fmean(seconds) if ended else median(seconds)) if seconds else None


def _work(recipe: Recipe) -> str:
    """Recipes that differ only in what changes no time, such as their rate, have the same."""
    values = {name: value for name, value in recipe.identity().items() if name != "init"}
    steps = {name: value for name, value in values["optimizer"].items() if name not in TIMELESS}
    return digest({**values, "optimizer": steps})


def side_by_side(seconds: Sequence[float], max_concurrent: int) -> float:
    """How long runs of these times take: as long as the longest one at least, and no slot is idle before the end."""
    return max(sum(seconds) / min(max_concurrent, len(seconds)), max(seconds)) if seconds else 0.0
