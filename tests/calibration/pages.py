"""Whole pages of made studies: table, headline and advice where seeds fail or are skewed, and studies that grow.

Where no seed of an arm happens to fail, nobody can see that others would. So rows of such arms have no bar, and the
rows of studies in which one was seen to fail have one.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from search_spaces.claim import Better
from search_spaces.study import Ablation, Study
from service.analysis.headline import details, headline
from service.analysis.study_result import StudyResult
from service.storage.facts import Counts, Ended, Measured, Planned
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.calibration.rows import Row
from tests.calibration.seeds import CHANCE, Found, Kind, beta, failing, normal, repeated
from trainables.data import RedGreen
from trainables.encodings import Fourier
from trainables.recipe import Recipe

REPETITIONS = 2000
EPOCHS = 8
NOWHERE = Home(Path("/nowhere"))
"""No file is read or written: all facts are at hand, and there is no model to be probed."""
VALIDATION = 0.003
"""How validation scores deviate from test scores."""
FALLEN = 0.8
"""A seed below it failed."""


class Pages:
    """A study of arms that is told as many seeds as one likes. `baseline`: the first arm."""

    def __init__(self, kinds: Sequence[Kind], seeds: int) -> None:
        arms = {f"a{place}": {"encoding.gamma": 1.0 + place} for place in range(len(kinds))}
        base = Recipe(data=RedGreen(task="direction"), encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": EPOCHS})
        plan, claims = Ablation(arms, "a0", race=True), (Better("a1", "a0"),)
        study = Study(name="made", question="?", base=base, plan=plan, seeds=seeds, claims=claims)
        self.kinds, self.edition = kinds, study.at()
        points = enumerate(arms.items())
        self.trials = [self.edition.trial(place, values, name, "trial") for place, (name, values) in points]

    def grown(self, rng: np.random.Generator, counts: Sequence[int]) -> Iterator[StudyResult]:
        """The same study after so many seeds, and then more."""
        history, begun = History(self.edition), 0
        for seeds in counts:
            history.add(Counts(seeds=seeds))
            for trial, kind in zip(self.trials, self.kinds, strict=True):
                if not begun:
                    history.add(Planned(role="trial", number=trial.number, name=trial.name, values=trial.values))
                tests = kind.values(rng, seeds - begun)
                for seed, test in zip(range(begun, seeds), tests, strict=True):
                    run, test = trial.run(seed), float(test)
                    values = {"val/accuracy": min(1.0, test + float(rng.normal(0, VALIDATION))), "test/accuracy": test}
                    history.add(Measured(run=run.key, code=history.code(run), epoch=EPOCHS, values=values))
                    history.add(Ended(run=run.key, code=history.code(run), outcome="completed", epoch=EPOCHS))
            begun = seeds
            yield StudyResult(NOWHERE, self.edition, history, Outcomes(NOWHERE))


def rows(repetitions: int) -> Iterator[Row]:
    """A fifth as many studies, as each is a whole page."""
    repetitions = max(2, repetitions // 5)
    for n in (5, 10):
        yield from worse_arm(repetitions, n)
    for kind in (normal(0.9, 0.01), beta(0.97, 30)):
        yield from equal_arms(repetitions, kind)
    yield from growing(repetitions)


def covers(text: str, truth: float) -> bool:
    """Whether the first interval of a text holds the truth, to its last digit; without one nothing is said."""
    interval = re.search(r"interval\D*?(?:of \d+)?\D*?(\d\.\d+) to (\d\.\d+)", text)
    return interval is None or float(interval[1]) - 5e-5 <= truth <= float(interval[2]) + 5e-5


def taken(result: StudyResult) -> str:
    """The arm that the first sentence tells to take, if no other one is said to be as good; empty for none."""
    rivals = any(line.startswith("Not told apart") for line in details(result))
    alone = None if rivals else re.match(r"Take “(\w+)”", headline(result))
    return alone[1] if alone else ""


def worse_arm(repetitions: int, n: int) -> Iterator[Row]:
    """An arm that scores most where it learns; but a fifth of its seeds falls to chance, so a steady one is better."""
    steady, rest = normal(0.93, 0.005), normal(0.85, 0.005)
    fails = failing(0.2, "chance", 0.96, 0.005)
    assert CHANCE < fails.mean < steady.mean
    pages, truths = Pages((steady, fails, rest, rest), n), {"a0": steady.mean, "a1": fails.mean}

    def study(rng: np.random.Generator) -> Found:
        (result,) = pages.grown(rng, (n,))
        seen = min(result.scores["a1"].values.values()) < FALLEN
        best = result.best
        holds = best is None or covers(details(result)[0], truths.get(best.name, rest.mean))
        wrong, gap = taken(result) == "a1", result.differences.get("a1")
        above = gap is not None and gap.significant and gap.mean > 0
        return {
            "headline's interval holds the mean of its arm, no bar": holds,
            "headline's interval holds it where one was seen to fail": holds if seen else None,
            "advice takes the worse arm alone, no bar": wrong,
            "advice takes the worse arm alone where one was seen to fail": wrong if seen else None,
            "table puts the worse arm above the baseline, no bar": above,
            "table puts it above where one was seen to fail": above if seen else None,
        }

    yield from repeated(f"the worse arm fails, n {n:2}", repetitions, study, n)


def equal_arms(repetitions: int, kind: Kind) -> Iterator[Row]:
    """Four equal arms."""
    pages = Pages((kind,) * 4, 5)

    def study(rng: np.random.Generator) -> Found:
        (result,) = pages.grown(rng, (5,))
        text = details(result)[0]
        return {
            "headline's interval holds the typical seed": covers(text, kind.typical),
            "headline's interval holds the mean, no bar": covers(text, kind.mean),
            "another one is said to be above the best": "significantly above it" in headline(result),
            "advice takes one alone": bool(taken(result)),
            "table tells one apart from the baseline": any(gap.significant for gap in result.differences.values()),
            "claim Better decided": result.claims[0].word in ("SUPPORTED", "REFUTED"),
        }

    yield from repeated(f"4 equal arms, {kind.name}, n  5", repetitions, study, len(kind.name))


def growing(repetitions: int) -> Iterator[Row]:
    """Two equal arms that get more seeds until one is better."""
    pages = Pages((normal(), normal()), 3)

    def study(rng: np.random.Generator) -> Found:
        claims, tables = [], []
        for result in pages.grown(rng, (3, 5, 8)):
            claims.append(result.claims[0].word in ("SUPPORTED", "REFUTED"))
            tables.append(any(gap.significant for gap in result.differences.values()))
        return {"claim Better decided at some look": any(claims), "table tells them apart at some look": any(tables)}

    yield from repeated("a study that grows, 3, 5, 8 seeds", repetitions, study)
