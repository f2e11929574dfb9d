"""The best score so far of a search over the training images that were spent, beside that of its random points.

Both are judged in the order of proposal: where several points train together, they count one after another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from search_spaces.roles import Role
from search_spaces.study import Trial
from service.analysis.statistics import Scores
from service.analysis.trial_scores import score_scale
from service.storage.history import History

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Sides = NDArray[np.bool_]
    Places = NDArray[np.intp]

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
        """True where every point has ended."""
        return len(self.images) == self.asked


def point_scores(history: History, role: Role) -> PointScores:
    """The points of a search, or its random ones."""
    answers = {trial.number: (trial, history.answer(trial)) for trial in history.of(role)}
    ended = {number: one for number, one in sorted(answers.items()) if one[1].status != "open"}
    return PointScores(
        {number: one.mean for number, (_, one) in ended.items() if one.status == "completed" and one.mean is not None},
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
    """The lead of a search over random points, with a permutation test.

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
    gains = np.array([max(one.values.get(number, chance) - chance, 0.0) for one in sides for number in one.images])
    images = np.array([float(spent) for one in sides for spent in one.images.values()])
    whose = np.repeat([True, False], [len(one.images) for one in sides])
    (found,), (spent,) = _leads(gains[None], images[None], whose[None])
    drawn = np.concatenate([_leads(gains[order], images[order], dealt)[0] for order, dealt in _dealt(whose)])
    above, below = (int((side * drawn >= side * found - ROUNDING).sum()) for side in (1, -1))
    return Lead(float(found), int(spent), (1 + above) / (1 + DRAWS), (1 + below) / (1 + DRAWS))


def _dealt(whose: Sides) -> Iterator[tuple[Places, Sides]]:
    """The order of all points, and whose they are, in every draw, a row a draw; the same draws each time.

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
    """The lead in each row of points, and the images over which it is the mean."""
    import numpy as np

    rows = len(whose)
    sides = [(gains[side].reshape(rows, -1), images[side].reshape(rows, -1).cumsum(axis=1)) for side in (whose, ~whose)]
    spent = np.minimum(*(ends[:, -1:] for _, ends in sides))
    areas = []
    for own, ends in sides:
        lengths = np.diff(np.minimum(np.column_stack([ends, spent]), spent), axis=1)
        areas.append((np.maximum.accumulate(own, axis=1) * lengths).sum(axis=1))
    return (areas[0] - areas[1]) / np.maximum(spent[:, 0], 1.0), spent[:, 0]
