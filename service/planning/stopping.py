"""Stops points and arms early, at rungs (successive halving) or by races over seeds, and judges how well it did."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cache
from itertools import takewhile
from statistics import fmean, variance

from search_spaces.roles import CONFIRMED, POINTS
from search_spaces.study import Edition, Trial
from search_spaces.words import plural
from service.storage.facts import TrialAnswer
from service.storage.history import History
from trainables.data.dataset import luck
from trainables.recipe import Run


def ended_answer(history: History, trial: Trial) -> TrialAnswer:
    """Returns the answer of a trial, or of the seeds asked for at first if these have ended and more were asked for.

    So a sampler still knows the scores of points that had ended when seeds were added.
    """
    answer, first = history.answer(trial), trial.seeds(history.first_seeds)
    if trial.tunes or answer.status != "open" or not {*first} <= {*answer.values}:
        return answer
    values = {seed: answer.values[seed] for seed in first}
    return replace(answer, status="completed", values=values, asked=len(values))


FIRST_RUNG = 3
"""The first rung is at this part (a third) of the epochs: before it, good and bad trials both score like guesses."""


def rungs(epochs: int) -> range:
    """Returns the epochs after which trials are compared: a third of all, rounded up, and twice that; not the last."""
    first = math.ceil(epochs / FIRST_RUNG)
    return range(first, epochs, first)


class EarlyStopper:
    """Stops trials that can hardly become one of the best any more, by successive halving.

    A rung is an epoch after which trials are compared. There the best 1/factor of the trials that reached it continue.
    A trial also continues if it would end among the best `CONFIRMED` with the largest gain that one of these had: from
    the lowest of its seeds at the rung to its mean at the end. No trial is stopped before so many have ended, nor if a
    seed of these was no better than guessing at the rung: then seeds learn so late that one of them says nothing. The
    measurements of a journal, reported in their order, give the same decisions again.
    Source: Li et al. 2018 (ASHA). Differs: the rungs are at thirds of the epochs for every factor; a trial that was
    stopped is never continued; the second condition, because trials that learn slowly may end as the best.
    """

    def __init__(self, edition: Edition, seeds: int) -> None:
        plan, data = edition.study.plan, edition.study.base.data
        assert plan.stop is not None
        chance, step = data.chances.val, data.step("val")
        self.factor, self.epochs, self.seeds = plan.stop.factor, edition.study.base.optimizer.trained_epochs, seeds
        self.guessed = data.score(chance + (luck(chance, 1 / step) if step else 0.0), "val")
        epochs = (*rungs(self.epochs), self.epochs)
        self._values: dict[int, dict[int, dict[int, float]]] = {epoch: {} for epoch in epochs}

    def report(self, number: int, epoch: int, value: float, seed: int = 0) -> float | None:
        """Adds a measurement of a trial, and returns the score that it would have needed to go on; None if it goes on.

        `number` is that of the trial; `seed` counts its seeds from 0, only the first is stopped. The first report of
        an epoch counts: a resumed run measures some epochs again.
        """
        reached, ends = self._values.get(epoch), self._values[self.epochs]
        if reached is None or seed in reached.setdefault(number, {}):
            return None
        reached[number][seed] = value
        if epoch == self.epochs or seed:
            return None
        ended = [(fmean(scores.values()), trial) for trial, scores in ends.items() if len(scores) == self.seeds]
        best = sorted(ended)[-CONFIRMED:]
        lowest = [min(reached.get(trial, {}).values(), default=self.guessed) for _, trial in best]
        if len(best) < CONFIRMED or min(lowest) <= self.guessed:
            return None
        firsts = sorted(scores[0] for scores in reached.values() if 0 in scores)
        halved = firsts[-max(len(firsts) // self.factor, 1)]
        gain = max(mean - low for (mean, _), low in zip(best, lowest, strict=True))
        cutoff = min(halved, best[0][0] - gain)
        return cutoff if value < cutoff else None


FEWEST = 3
"""How many seeds every arm gets at least."""
LOST = 0.05
"""The greatest probability that the best arm leaves the race, over all arms and looks (times of comparison)."""


def race_cutoff(history: History, trial: Trial, run: Run) -> float | None:
    """Returns the mean that a point or an arm would have needed to get this run, its next seed; None if it gets it.

    A run that has begun goes on: a part of it would look like an answer.

    A point is out of the race if its mean would be below the points that would be confirmed now, even if each seed that
    it lacks scored as high as the best seed so far, of its own and theirs. An arm is out if it is below the best arm by
    more than seeds explain. The baseline stays, because the gain of the best arm is measured against it. An arm also
    stays if its mean over all its seeds is the highest: the first seeds of the best arm may be lucky.
    Source: Maron and Moore 1994 (races). Differs: the bound of a point is the best seed seen, and not one of a
    distribution, because the seeds of a point may lie in two groups.
    """
    plan = history.edition.study.plan
    if not history.races(trial) or run == history.first_run(trial) or history.state(run).was_run:
        return None
    if not plan.arms:
        best = [history.answer(point) for point in history.highest(CONFIRMED, trial.role)] if plan.stop else []
        if len(best) < CONFIRMED:
            return None
        cutoff, answer = best[-1].mean or 0.0, history.answer(trial)
        top = max(score for of_point in (*best, answer) for score in of_point.values.values())
        reachable = sum(answer.values.values()) + (answer.asked - len(answer.values)) * top
        return cutoff if reachable / answer.asked < cutoff else None

    # Each arm that is in the race has `rounds` seeds by now, and this is a look at them.
    count = rounds(history)
    if count < FEWEST or plan.is_baseline(trial.name):
        return None
    answers = {arm.label: (history.answer(arm), arm.seeds(count)) for arm in racers(history)}
    rows = {
        label: [answer.values[seed] for seed in seeds]
        for label, (answer, seeds) in answers.items()
        if {*seeds} <= {*answer.values}
    }
    data = trial.recipe.data
    step = data.score(data.step("val"), "val") - data.score(0.0, "val")
    out = behind(rows, len(plan.arms), step, data.overlap)
    means = {label: answer.mean for label, (answer, _) in answers.items() if answer.mean is not None}
    leads = means.get(trial.label) == max(means.values())
    return max(map(fmean, rows.values())) if trial.label in out and not leads else None


def racers(history: History) -> list[Trial]:
    """Returns the arms that are still in the race."""
    return [trial for trial in history.of("trial") if history.answer(trial).status != "stopped"]


def rounds(history: History) -> int:
    """Returns how many first seeds have ended in all arms of the race. A run that failed for good counts as ended."""
    runs = [history.runs(trial).values() for trial in racers(history)]
    ended = takewhile(
        lambda of_seed: all(history.state(run).answered or history.given_up(run) for run in of_seed),
        zip(*runs, strict=True),
    )
    return sum(1 for _ in ended)


def behind(rows: dict[str, list[float]], arms: int, step: float = 0.0, overlap: float = 0.0) -> list[str]:
    """Returns the arms that are clearly below the best.

    `rows` holds, for each arm in the race, a score for each seed. `arms` counts all arms. `step` is how much one image
    changes a score. `overlap` is that of the data set if seeds are folds, and else 0.
    At n = 3, 4, 5 and so on seeds the level is 3 a / (n (n + 1)), shared by all arms but one, where a is `LOST`. The
    levels add up to a, however many seeds there may be.
    """
    if not rows:
        return []
    seeds, best = len(next(iter(rows.values()))), max(rows, key=lambda arm: fmean(rows[arm]))
    level = LOST * FEWEST / (seeds * (seeds + 1)) / max(1, arms - 1)
    return [arm for arm in rows if arm != best and p_below(rows, arm, best, step, overlap) < level]


def p_below(rows: dict[str, list[float]], arm: str, best: str, step: float = 0.0, overlap: float = 0.0) -> float:
    """Returns the one-sided p of the null hypothesis that an arm is no worse than the best so far.

    `rows` holds a score for each seed of each arm. How much seeds differ is estimated from all arms, so that three
    seeds suffice; if the gaps of this pair differ more than that, they are estimated from its own seeds alone.
    Source: two-way layout without replication (Fisher 1925); races: Maron and Moore 1994, F-Race (Birattari et al.
    2002). Differs: the larger of the two variances, with its degrees of freedom; at least the error of two scores that
    are rounded to a step; folds of the same images are no independent seeds (Nadeau and Bengio 2003).
    """
    gaps = [above - below for above, below in zip(rows[best], rows[arm], strict=True)]
    seeds, df = len(gaps), (len(rows) - 1) * (len(gaps) - 1)
    of_arms, of_seeds = [*map(fmean, rows.values())], [*map(fmean, zip(*rows.values(), strict=True))]
    center = fmean(of_arms)
    residuals = [
        (score - of_arm - of_seed + center) ** 2
        for scores, of_arm in zip(rows.values(), of_arms, strict=True)
        for score, of_seed in zip(scores, of_seeds, strict=True)
    ]
    spread = 2 * (math.fsum(residuals) / df)
    if variance(gaps) > spread:
        spread, df = variance(gaps), seeds - 1
    error = max(math.sqrt(spread * (1 / seeds + overlap)), step / math.sqrt(6))
    return 1 - cdf(fmean(gaps) / error, df) if error else float(fmean(gaps) <= 0)


@dataclass(frozen=True)
class Saved:
    """Counts of points or arms that were stopped early, and of the training images that this saved.

    `halved` points were stopped at a rung, which saved `halving` images; `raced` ones by the race, which saved `racing`
    images. `trained` counts the images that all points or arms have seen. `noun` is "point" or "arm".
    """

    halved: int = 0
    halving: int = 0
    raced: int = 0
    racing: int = 0
    trained: int = 0
    noun: str = "point"

    def __str__(self) -> str:
        if not self.halved + self.raced:
            return ""
        raced = f"by the race over seeds ({plural(self.raced, self.noun)}); {self.trained:,} were trained."
        if self.noun == "arm":
            return f"{self.racing:,} training images were saved {raced}"
        at_rungs = f"{self.halving:,} training images at rungs ({plural(self.halved, self.noun)})"
        return f"Early stopping saved {at_rungs} and {self.racing:,} {raced}"


def saved_images(history: History) -> Saved:
    """Returns the images that were saved so far. A point stopped at a rung would have trained its other seeds, too."""
    counts = dict.fromkeys(("halved", "halving", "raced", "racing", "trained"), 0)
    for trial in [trial for role in POINTS for trial in history.of(role) if history.races(trial)]:
        runs, answer = history.runs(trial).values(), history.answer(trial)
        images, epochs = trial.recipe.data.image_counts.train, sum(history.state(run).epoch for run in runs)
        counts["trained"] += images * epochs
        if answer.status == "stopped":
            trials, saved = ("raced", "racing") if answer.raced else ("halved", "halving")
            counts[trials] += 1
            counts[saved] += images * (len(runs) * trial.recipe.optimizer.trained_epochs - epochs)
    return Saved(**counts, noun=history.edition.study.plan.noun)


FEWEST_TRIALS = 4
"""The fewest trials for a rank correlation. With fewer it says nothing: three trials have only six orders."""


@dataclass(frozen=True)
class Rung:
    """One epoch after which trials are compared.

    `reached` is how many trials were measured there, and `ended` how many of these completed. `correlation` is
    Spearman's: of the first seed's score there with the mean score of all seeds at the end. It is None for fewer than
    four trials, or equal scores.
    """

    epoch: int
    reached: int
    ended: int
    correlation: float | None


def judge_rungs(history: History) -> list[Rung]:
    """Returns the rungs of a search that some trial reached, also if nothing was stopped; no rungs for an ablation.

    If trials are stopped, only the better ones are correlated, so the correlation is lower than among all trials.
    Source: Spearman 1904; Li et al. 2018 on successive halving, which relies on this order.
    """
    if history.edition.study.plan.arms:
        return []
    judged = []
    for epoch in rungs(history.edition.study.base.optimizer.trained_epochs):
        reached, pairs = 0, []
        for trial in history.of("trial"):
            measured, answer = history.state(history.first_run(trial)).curve.get(epoch), history.answer(trial)
            score = None if measured is None else measured.values.get(trial.score.metric)
            if score is not None:
                reached += 1
                if answer.status == "completed" and answer.mean is not None:
                    pairs.append((score, answer.mean))
        if reached:
            judged.append(Rung(epoch, reached, len(pairs), rank_correlation(pairs)))
    return judged


def rank_correlation(pairs: list[tuple[float, float]]) -> float | None:
    """Returns Spearman's correlation (equal values share a rank); None for fewer than four pairs, or equal values."""
    if len(pairs) < FEWEST_TRIALS or any(len({pair[side] for pair in pairs}) < 2 for side in (0, 1)):
        return None
    from scipy.stats import spearmanr  # here, for the commands that only look must start without scipy

    return float(spearmanr(*zip(*pairs, strict=True)).statistic)


def cdf(t: float, df: int) -> float:
    """Returns the probability that Student's t with `df` degrees of freedom lies at or below `t`.

    Source: Abramowitz and Stegun 1964, 26.7.3 and 26.7.4 (finite sums for whole degrees of freedom).
    Differs: nothing.
    """
    if math.isinf(t):
        return 1.0 if t > 0 else 0.0
    angle = math.atan(t / math.sqrt(df))
    cosine, sine = math.cos(angle), math.sin(angle)
    odd = df % 2 == 1
    term, total = (cosine, 0.0) if odd else (1.0, 0.0)
    for power in range(1 if odd else 0, df - 1, 2):
        total += term
        term *= (power + 1) / (power + 2) * cosine**2
    inside = 2 / math.pi * (angle + sine * total) if odd else sine * total
    return min(1.0, max(0.0, (1 + inside) / 2))


@cache
def quantile(p: float, df: int) -> float:
    """Returns the t below which a share `p` of Student's t distribution lies, found by bisection."""
    if p < 0.5:
        return -quantile(1 - p, df)
    low, high = 0.0, 1.0
    while cdf(high, df) < p and high < 1e12:
        low, high = high, 2 * high
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        low, high = (middle, high) if cdf(middle, df) < p else (low, middle)
    return high
