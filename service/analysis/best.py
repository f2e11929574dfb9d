"""Which trial is best: one rule for the terminal, MLflow, the report and Python.

The highest validation mean decides; of a search that of the search's own seeds, so that the fresh seeds of the
confirmation, which chose nothing, say how good the best is. Once every confirmation has ended, the confirmed trials
alone compete; until then all points do. A trial that lacks a seed cannot win, equal means are a tie, and where no trial
is above chance nothing is best.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from search_spaces.roles import CONFIRMATIONS, POINTS, Role
from search_spaces.study import Ablation, Trial
from service.analysis.scores import score_scale, validation_scores
from service.analysis.statistics import Scores
from service.storage.history import History
from service.storage.states import TrialAnswer

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Sides = NDArray[np.bool_]
    Places = NDArray[np.intp]


Tied = TypeVar("Tied")
EQUAL = 1e-9
"""Means that differ by less are equal: rounding of sums can move their last digits."""


@dataclass(frozen=True)
class Best:
    """The best trials of a study.

    `highest`: the trials with the highest validation mean, several where they tie; `above_chance`: whether any trial
    is above chance; `learnt`: whether at least a seed of one is; `confirmed`: whether trials on fresh seeds competed.
    """

    highest: tuple[Trial, ...] = ()
    above_chance: bool = False
    learnt: bool = False
    confirmed: bool = False

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The best trials: one, several that tie, or none if no trial is above chance."""
        return self.highest if self.above_chance else ()

    @property
    def tied(self) -> bool:
        """True if several trials share the highest mean."""
        return len(self.trials) > 1


def find_best(history: History) -> Best:
    """Returns the best trials of a study so far.

    None if the arms learn different tasks, whose scores are not compared.
    """
    plan = history.edition.study.plan
    if isinstance(plan, Ablation) and plan.tasks:
        return Best()
    confirmed = _confirmed(history)
    complete = list(_complete(history, confirmed))
    if complete:
        return _choose(history, complete, confirmed=True)
    complete = list(_complete(history, history.of("trial")))
    return _choose(history, complete, confirmed=False) if complete else Best()


def one_of(tied: Iterable[Tied], tests: Callable[[Tied], Scores]) -> Tied | None:
    """Returns one of the best trials: the one with the highest test mean, for the order of several says nothing.

    The first one of equal ones, and of those without test scores; None for none.
    """

    def mean(trial: Tied) -> float:
        known = tests(trial).sound.mean
        return -math.inf if known is None else known

    return max(tied, key=mean, default=None)


def best_rivals(history: History) -> tuple[Trial, ...]:
    """Returns the best of a search's random points, chosen as the search's own best is, once all are confirmed."""
    trials = history.confirmations("rival_confirmation")
    if any(history.answer(trial).status == "open" for trial in trials):
        return ()
    complete = list(_complete(history, trials))
    return _choose(history, complete, confirmed=True).highest if complete else ()


def ranked(history: History) -> list[Trial]:
    """Returns all trials, best first: confirmations before their points, then by status and validation mean."""
    return sorted(history.trials, key=lambda trial: place_key(history, trial))


def confirmed_points(history: History) -> list[Trial]:
    """Returns the confirmations of a search's points that count, the best first."""
    return sorted(history.confirmations("confirmation"), key=lambda trial: place_key(history, trial))


def place_key(history: History, trial: Trial) -> tuple[int, int, float, int]:
    """Returns what trials are ordered by: kind, status, the mean that chooses with a minus, number.

    The smallest is best.
    """
    roles = {"confirmation": 0, "trial": 1, "rival_confirmation": 2, "rival": 3, "tuning": 4, "parent": 5}
    order = {"completed": 0, "incomplete": 1, "open": 2, "stopped": 3, "diverged": 4}
    answer = history.answer(trial)
    mean = chosen_by(history, trial)
    return len(roles) if history.is_replaced(trial) else roles[trial.role], order[answer.status], -mean, trial.number


def _confirmed(history: History) -> list[Trial]:
    """Returns the confirmations, once all of them have ended."""
    trials = history.confirmations("confirmation")
    whole = {trial.number for trial in trials} == {*history.confirms}
    return trials if whole and all(history.answer(trial).status != "open" for trial in trials) else []


def _complete(history: History, trials: list[Trial]) -> Iterator[tuple[Trial, TrialAnswer]]:
    for trial in trials:
        answer = history.answer(trial)
        if answer.status == "completed" and answer.values:
            yield trial, answer


def _choose(history: History, complete: list[tuple[Trial, TrialAnswer]], confirmed: bool) -> Best:
    means = {trial.label: chosen_by(history, trial) for trial, _ in complete}
    highest = max(means.values())
    same = [trial for trial, _ in complete if math.isclose(means[trial.label], highest, rel_tol=0, abs_tol=EQUAL)]

    def scores() -> Iterator[Scores]:
        """Returns the scores of one trial after another: the first may decide."""
        return (validation_scores(history, trial, answer) for trial, answer in complete)

    return Best(
        highest=tuple(sorted(same, key=lambda trial: trial.number)),
        above_chance=any(trial_scores.above_chance for trial_scores in scores()),
        learnt=any(trial_scores.any_above_chance for trial_scores in scores()),
        confirmed=confirmed,
    )


def chosen_by(history: History, trial: Trial) -> float:
    """Returns the mean that a trial is chosen by: of a confirmation that of the point which it confirms.

    The point tried first is confirmed in any case; if it was stopped or diverged, nothing chooses it.
    """
    whole = trial.role in CONFIRMATIONS
    if whole:
        points = history.of(POINTS[CONFIRMATIONS.index(trial.role)])
        trial = next(point for point in points if point.number == trial.number)
    answer = history.answer(trial)
    return -math.inf if answer.mean is None or (whole and answer.status != "completed") else answer.mean


DRAWS = 9_999
"""How many permutations are drawn. With the observed one they make 10,000."""
CELLS = 1_000_000
"""So many points are permuted together, for the sake of memory."""
ROUNDING = 1e-9
"""Leads that differ by less are equal."""


@dataclass(frozen=True, kw_only=True)
class PointScores(Scores):
    """The validation means of a search's points, by number: of those that have all their seeds.

    A point that was stopped, diverged or failed has no mean; it has only cost images. `images`: the training images
    that each point has cost, in the order of proposal; a point that has not ended is left out.
    """

    images: Mapping[int, int]

    @property
    def complete(self) -> bool:
        """True if every point has ended."""
        return len(self.images) == self.asked


def point_scores(history: History, role: Role) -> PointScores:
    """Returns the points of a search, or its random ones."""
    answers = {trial.number: (trial, history.answer(trial)) for trial in history.of(role)}
    ended = {number: pair for number, pair in sorted(answers.items()) if pair[1].status != "open"}
    return PointScores(
        {
            number: answer.mean
            for number, (_, answer) in ended.items()
            if answer.status == "completed" and answer.mean is not None
        },
        history.rival_count if role == "rival" else history.trial_count,
        score_scale(history.edition.study.base.data, "val"),
        images={number: _images(history, trial) for number, (trial, _) in ended.items()},
    )


def _images(history: History, trial: Trial) -> int:
    epochs = sum(history.state(run).epoch for run in history.runs(trial).values())
    return epochs * trial.recipe.data.image_counts.train


@dataclass(frozen=True)
class Lead:
    """By how much the best score so far of one side is higher than that of the other, in the mean over images.

    `images`: over how many, the fewer of what the two have spent. `p_above`, `p_below`: of the null hypotheses that it
    leads, or lags behind, by luck.
    """

    mean: float
    images: int
    p_above: float
    p_below: float


def lead(who: PointScores, than: PointScores) -> Lead:
    """Returns the lead of a search over random points, with a permutation test.

    Before a point has all its seeds the best score so far is chance, which a constant answer has for no image. Under
    the null hypothesis it is luck which point is whose. So the points of both are put in one order, in which each keeps
    about its place, and are dealt to the two sides at random. Early stopping treats the first points of a search
    otherwise than later ones, so points that change places, too, would find a lead too often (measured: in up to 7 % of
    searches where there is none).
    Source: Dewancker et al. 2016 (the area under the best seen trace); Phipson and Smyth 2010 (p of drawn
    permutations). Differs: the trace is over training images, not over points; the points keep their order.
    """
    import numpy as np  # here, for it takes a while to import

    chance, sides = who.scale.chance, (who, than)
    gains = np.array([max(side.values.get(number, chance) - chance, 0.0) for side in sides for number in side.images])
    images = np.array([float(spent) for side in sides for spent in side.images.values()])
    whose = np.repeat([True, False], [len(side.images) for side in sides])
    (mean,), (spent,) = _leads(gains[None], images[None], whose[None])
    drawn = np.concatenate([_leads(gains[order], images[order], dealt)[0] for order, dealt in _dealt(whose)])
    above, below = (int((side * drawn >= side * mean - ROUNDING).sum()) for side in (1, -1))
    return Lead(float(mean), int(spent), (1 + above) / (1 + DRAWS), (1 + below) / (1 + DRAWS))


def _dealt(whose: Sides) -> Iterator[tuple[Places, Sides]]:
    """Yields the order of all points, and whose they are, one row per draw; the same draws each time.

    A point of n of its side lies in the n-th part of the order that is its own, at a place drawn there.
    """
    import numpy as np

    rng, left = np.random.default_rng(0), DRAWS
    counts = int(whose.sum()), int((~whose).sum())
    begins = np.concatenate([np.arange(n) / n for n in counts])
    widths = np.repeat([1 / n for n in counts], counts)
    while left:
        shape = min(left, max(1, CELLS // len(whose))), len(whose)
        order = np.argsort(begins + widths * rng.random(shape), axis=1)
        yield order, rng.permuted(np.broadcast_to(whose, shape), axis=1)
        left -= shape[0]


def _leads(gains: Floats, images: Floats, whose: Sides) -> tuple[Floats, Floats]:
    """Returns the lead in each row of points, and the images over which it is the mean."""
    import numpy as np

    rows = len(whose)
    sides = [(gains[side].reshape(rows, -1), images[side].reshape(rows, -1).cumsum(axis=1)) for side in (whose, ~whose)]
    spent = np.minimum(*(ends[:, -1:] for _, ends in sides))
    areas = []
    for own, ends in sides:
        lengths = np.diff(np.minimum(np.column_stack([ends, spent]), spent), axis=1)
        areas.append((np.maximum.accumulate(own, axis=1) * lengths).sum(axis=1))
    return (areas[0] - areas[1]) / np.maximum(spent[:, 0], 1.0), spent[:, 0]
