"""How many training images early stopping saved, and which of its two ways did. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.roles import POINTS
from search_spaces.study import Search
from search_spaces.words import plural
from service.storage.history import History


@dataclass(frozen=True)
class Saved:
    """Points that were stopped, and the training images that they would have seen besides with all epochs and seeds.

    `halving`: those stopped at a rung of their first seed; `racing`: those that were refused a later seed; `trained`:
    the images that all points have seen.
    """

    halved: int = 0
    halving: int = 0
    raced: int = 0
    racing: int = 0
    trained: int = 0

    def __str__(self) -> str:
        """In a sentence; empty where nothing was stopped."""
        if not self.halved + self.raced:
            return ""
        return (
            f"Early stopping saved {self.halving:,} training images at rungs ({plural(self.halved, 'point')}) and "
            f"{self.racing:,} by the race over seeds ({plural(self.raced, 'point')}); {self.trained:,} were trained."
        )


def saved_images(history: History) -> Saved:
    """What was saved so far. A point that was stopped at a rung would have trained its other seeds, too, at most."""
    found = {"halved": 0, "halving": 0, "raced": 0, "racing": 0, "trained": 0}
    points = [trial for role in POINTS for trial in history.of(role)]
    for trial in points if isinstance(history.edition.study.plan, Search) else []:
        runs, answer = history.runs(trial).values(), history.answer(trial)
        images, epochs = trial.recipe.data.image_counts.train, sum(history.state(run).epoch for run in runs)
        found["trained"] += images * epochs
        if answer.status == "stopped":
            count, of = ("raced", "racing") if answer.raced else ("halved", "halving")
            found[count] += 1
            found[of] += images * (len(runs) * trial.recipe.optimizer.epochs - epochs)
    return Saved(**found)
