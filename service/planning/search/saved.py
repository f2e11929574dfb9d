"""How many training images early stopping saved, and which of its two ways did. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from search_spaces.roles import POINTS
from search_spaces.study import Ablation
from search_spaces.words import plural
from service.storage.history import History


@dataclass(frozen=True)
class Saved:
    """Points or arms that were stopped, and the training images that they would have seen with all epochs and seeds.

    `halving`: those stopped at a rung of their first seed; `racing`: those that were refused a later seed; `trained`:
    the images that all of them have seen.
    """

    halved: int = 0
    halving: int = 0
    raced: int = 0
    racing: int = 0
    trained: int = 0
    noun: str = "point"

    def __str__(self) -> str:
        """In a sentence; empty where nothing was stopped."""
        if not self.halved + self.raced:
            return ""
        raced = f"by the race over seeds ({plural(self.raced, self.noun)}); {self.trained:,} were trained."
        if self.noun == "arm":
            return f"{self.racing:,} training images were saved {raced}"
        at_rungs = f"{self.halving:,} training images at rungs ({plural(self.halved, self.noun)})"
        return f"Early stopping saved {at_rungs} and {self.racing:,} {raced}"


def saved_images(history: History) -> Saved:
    """What was saved so far. A point that was stopped at a rung would have trained its other seeds, too, at most."""
    found = {"halved": 0, "halving": 0, "raced": 0, "racing": 0, "trained": 0}
    for trial in [trial for role in POINTS for trial in history.of(role) if history.races(trial)]:
        runs, answer = history.runs(trial).values(), history.answer(trial)
        images, epochs = trial.recipe.data.image_counts.train, sum(history.state(run).epoch for run in runs)
        found["trained"] += images * epochs
        if answer.status == "stopped":
            count, of = ("raced", "racing") if answer.raced else ("halved", "halving")
            found[count] += 1
            found[of] += images * (len(runs) * trial.recipe.optimizer.epochs - epochs)
    return Saved(**found, noun="arm" if isinstance(history.edition.study.plan, Ablation) else "point")
