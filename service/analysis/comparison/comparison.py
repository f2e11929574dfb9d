"""Two sides compared: trial by trial, paired by seed where both have the same seeds, all differences tested together.

Trials are matched by the name of the arm, or as the best and the first point of a search, else by equal recipes. A
difference is B minus A on the test set.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from search_spaces.words import listed, plural, quoted
from service.analysis.comparison.definition import Change, Contender, Side, changes, other_images, other_scale
from service.analysis.differences import Difference, together
from service.analysis.statistics import (
    FEWEST,
    Estimate,
    Interval,
    Scores,
    difference,
    drawn,
    estimate,
    level_of,
    on_logits,
    over_draws,
)


def unpaired(who: Scores, than: Scores) -> Estimate | None:
    """The mean of `who` minus that of `than`, whose seeds have nothing in common; None if either has no seed.

    Source: Welch 1947, The generalization of `Student's' problem when several different population variances are
    involved. Differs: the degrees of freedom are rounded down to a whole number, which widens the interval; the floor
    of `estimate` holds for each of the two; `over_draws`.
    """
    sides = who.sound, than.sound
    if not all(side.values for side in sides):
        return None
    ends = (who.scale.low - than.scale.high, who.scale.high - than.scale.low)
    twin = None
    if all(side.scale.logits for side in sides):
        twin = _welch([_mean(side, on_logits(side, [*side.values])) for side in sides])
    found = _welch([_mean(side, [*side.values.values()]) for side in sides], ends, twin)
    return over_draws(
        found, *(drawn([side], [sign], [*side.values]) for side, sign in zip(sides, (1.0, -1.0), strict=True))
    )


def _mean(side: Scores, values: Sequence[float]) -> Estimate:
    return estimate(values, side.scale.rounding, overlap=side.scale.overlap)


def _welch(means: Sequence[Estimate], ends: Interval = (-math.inf, math.inf), twin: Estimate | None = None) -> Estimate:
    """The difference of two means, with its error and degrees of freedom; without them where a mean has no error."""
    one, other = means
    n, mean = min(one.n, other.n), one.mean - other.mean
    if one.error is None or other.error is None:
        return Estimate(n, mean, low=ends[0], high=ends[1])
    both = math.hypot(one.error, other.error)
    parts = one.error**4 / (one.n - 1) + other.error**4 / (other.n - 1)
    df = max(1, math.floor(both**4 / parts * (1 + 1e-12))) if parts else one.n + other.n - 2
    return Estimate(n, mean, None, both, *ends, df, twin)


How = Literal["paired", "unpaired", "same runs", "no scores", "other scale"]


@dataclass(frozen=True)
class Match:
    """A trial of each side. `how`: how they are compared; `estimate`: B minus A; `seeds`: of each pair."""

    a: Contender
    b: Contender
    how: How
    estimate: Estimate | None = None
    seeds: tuple[int, ...] = ()

    @property
    def name(self) -> str:
        """The name that both share, or both names."""
        return self.a.name if self.a.name == self.b.name else f"{self.a.name} / {self.b.name}"

    @property
    def how_words(self) -> str:
        """How they are compared, in a cell: `5 pairs`, `3 of 5 pairs` where seeds fail, `unpaired`, `same runs`."""
        if self.how != "paired":
            return self.how
        learn = self.estimate.n if self.estimate else 0
        return f"{f'{learn} of ' if learn < len(self.seeds) else ''}{plural(len(self.seeds), 'pair')}"


@dataclass(frozen=True, repr=False)
class Comparison:
    """Two studies, or two code versions of one, set against each other."""

    a: Side
    b: Side

    @cached_property
    def matches(self) -> list[Match]:
        """The trials that both sides have, in the order of A."""
        return [_match(one, other) for one, other in _matched(self.a, self.b)]

    @cached_property
    def only(self) -> tuple[list[str], list[str]]:
        """The names of the trials that A has alone, and of those that B has alone."""
        taken = {id(contender) for match in self.matches for contender in (match.a, match.b)}
        one, other = ([row.name for row in side.contenders if id(row) not in taken] for side in (self.a, self.b))
        return one, other

    @property
    def alpha(self) -> float:
        """The level of the tests: that of a study's own ones, at the look of the side that was looked at more often."""
        return level_of(max(self.a.looks, self.b.looks))

    @cached_property
    def differences(self) -> dict[int, Difference]:
        """B minus A, by the place of the match; all that can be tested are adjusted together (Holm)."""
        known = {
            str(place): (match.b.test, match.a.test, match.estimate)
            for place, match in enumerate(self.matches)
            if match.estimate is not None
        }
        tested = {place: gap for place, gap in known.items() if self.matches[int(place)].how != "same runs"}
        same = {place: Difference(*gap, None) for place, gap in known.items() if place not in tested}
        return {int(place): gap for place, gap in (together(tested, self.alpha) | same).items()}

    @cached_property
    def tests(self) -> int:
        """How many differences were tested together."""
        return sum(gap.adjusted is not None for gap in self.differences.values())

    @cached_property
    def changes(self) -> list[Change]:
        """What differs between the two sides."""
        pairs = [(match.a, match.b) for match in self.matches]
        return changes(self.a.edition, self.b.edition, pairs)

    @property
    def metric(self) -> str:
        """The metric of the scores of A."""
        return self.a.edition.study.score.test

    @cached_property
    def warnings(self) -> list[str]:
        """Why the scores may not be comparable, and what each side lacks."""
        found: dict[str, list[str]] = {}
        for match in self.matches:
            recipes = match.a.trial.recipe, match.b.trial.recipe
            if scale := other_scale(*recipes):
                found.setdefault(f"scores are not comparable, so no difference is shown: {scale}", []).append(
                    match.name
                )
            elif images := other_images(*recipes):
                found.setdefault(f"the test images may differ, so scores may not be comparable: {images}", []).append(
                    match.name
                )
        named = [why if len(names) == len(self.matches) else f"{why} ({listed([*map(quoted, names)])})"
                 for why, names in found.items()]  # fmt: skip
        if any(match.how == "unpaired" for match in self.matches):
            named.append("without common seeds a difference is not paired (Welch's test), and so less sure")
        if not self.matches:
            named.append("no trial of A and B has the same name or the same recipe: nothing can be compared")
        return [*named, *dict.fromkeys([*self.a.remarks, *self.b.remarks])]

    def plain(self) -> dict[str, Any]:
        """Plain values, for --json."""
        return {
            "a": self.a.label,
            "b": self.b.label,
            "metric": self.metric,
            "changes": [vars(change) for change in self.changes],
            "warnings": self.warnings,
            "trials": [self._row(place, match) for place, match in enumerate(self.matches)],
            "only_a": self.only[0],
            "only_b": self.only[1],
        }

    def _row(self, place: int, match: Match) -> dict[str, Any]:
        gap = self.differences.get(place)
        low, high = (gap.interval if gap else None) or (None, None)
        return {
            "name": match.name,
            **_scores("a", match.a.test),
            **_scores("b", match.b.test),
            "how": match.how,
            "seeds": list(match.seeds),
            "difference": gap.mean if gap else None,
            "low": low,
            "high": high,
            "confidence": gap.confidence if gap and gap.adjusted else None,
            "p": gap.estimate.p() if gap and gap.adjusted else None,
            "p_holm": gap.p if gap else None,
            "opposed": gap.opposed if gap else False,
        }


def _scores(name: str, scores: Scores) -> dict[str, Any]:
    return {
        f"{name}_n": scores.n,
        f"{name}_mean": scores.mean,
        f"{name}_std": scores.std,
        f"{name}_learnt": len(scores.learnt),
        f"{name}_diverged": len(scores.diverged),
    }


def _matched(a: Side, b: Side) -> Iterator[tuple[Contender, Contender]]:
    """Pairs by place, in the order of A; what is left by equal recipes."""
    places = {contender.place: contender for contender in b.contenders}
    by_place = {id(one): places[one.place] for one in a.contenders if one.place in places}
    taken = {id(other) for other in by_place.values()}
    for one in a.contenders:
        other = by_place.get(id(one))
        if other is None:
            rest = (row for row in b.contenders if id(row) not in taken and row.trial.recipe == one.trial.recipe)
            other = next(rest, None)
        if other is not None:
            taken.add(id(other))
            yield one, other


def _match(a: Contender, b: Contender) -> Match:
    if other_scale(a.trial.recipe, b.trial.recipe):
        return Match(a, b, "other scale")
    shared = sorted(a.test.values.keys() & b.test.values.keys())
    if not a.test.values or not b.test.values:
        return Match(a, b, "no scores")
    own = [seed for seed in shared if not _same_answer(a, b, seed)]
    if shared and not own:
        return Match(a, b, "same runs", difference(b.test, a.test), tuple(shared))
    if len(own) >= FEWEST or (own and min(a.test.n, b.test.n) < FEWEST):
        return Match(a, b, "paired", difference(b.test, a.test, own), tuple(own))
    return Match(a, b, "unpaired", unpaired(b.test, a.test))


def _same_answer(a: Contender, b: Contender, seed: int) -> bool:
    """Whether both sides have the very same answer at a seed: then its difference is 0 and says nothing."""
    one, other = a.answers.get(seed), b.answers.get(seed)
    return one is not None and other is not None and (one.run.key, one.name) == (other.run.key, other.name)
