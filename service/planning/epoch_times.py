"""How long epochs take, from those that were measured, and how long runs take side by side."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from trainables.recipe import Recipe
from trainables.spec import digest

TIMELESS = (
    "lr", "weight_decay", "epochs", "schedule", "warmup", "min_lr", "betas", "eps", "layer_decay", "lr_base_size",
)  # fmt: skip
"""Values of an optimizer that change no time of an epoch."""


class EpochTimes:
    """The time of an epoch of a recipe: of the same work, else of all that was measured, else what is given.

    `known`: recipes, and the seconds of their measured epochs; `otherwise`: the seconds of other epochs.
    """

    def __init__(self, known: Iterable[tuple[Recipe, Sequence[float]]], otherwise: Sequence[float] = ()) -> None:
        self._alike: dict[str, list[float]] = {}
        for recipe, seconds in known:
            if seconds:
                self._alike.setdefault(_work(recipe), []).extend(seconds)
        every = [time for some in self._alike.values() for time in some] or [*otherwise]
        self.usual = median(every) if every else None

    def __call__(self, recipe: Recipe) -> float | None:
        """Seconds; None where nothing was measured."""
        alike = self._alike.get(_work(recipe))
        return median(alike) if alike else self.usual


def _work(recipe: Recipe) -> str:
    """Recipes that differ only in what changes no time, such as their rate, have the same."""
    values = {name: value for name, value in recipe.identity().items() if name != "init"}
    steps = {name: value for name, value in values["optimizer"].items() if name not in TIMELESS}
    return digest({**values, "optimizer": steps})


def side_by_side(seconds: Sequence[float], max_concurrent: int) -> float:
    """How long runs of these times take: as long as the longest one at least, and no slot is idle before the end."""
    return max(sum(seconds) / min(max_concurrent, len(seconds)), max(seconds)) if seconds else 0.0
