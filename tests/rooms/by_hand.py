"""Studies with a history written by hand: real facts and answers in a home, numbers invented, formulas real."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from search_spaces.claim import AtChance, AtLeast, Better, Claim, Equivalent
from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Published, Search, Study, Trial
from service.analysis.verdicts import Departure, ScoresOf, Verdict, judge_page
from service.storage.editions import save_edition
from service.storage.facts import Confirms, Counts, Ended, FailedWith, Measured, Planned, Started, StoppedAt, line_of
from service.storage.home import Home
from service.storage.journal import Journal
from service.storage.outcomes import Answered, Outcomes
from trainables.data import RedGreen
from trainables.encodings import Fourier
from trainables.launch.work_files import EMA_WEIGHTS, WEIGHTS
from trainables.recipe import Recipe, Run
from trainables.recipe.outcome import Completed, Diverged, Measurement, at_image_size
from trainables.recipe.revisions import code_of

EPOCHS = 8
ENVIRONMENT = {"torch": "2.15.0", "python": "3.11.2", "timm": "1.0.31", "device": "cpu", "threads": 1}


class ByHand:
    """Writes a study's facts: `plan` a trial, then `complete`, `stop`, `diverge` or `fail` its runs.

    `with ByHand(...) as hand` opens the journal; `seeds`, `trials`: the counts that it writes first, if any.
    """

    def __init__(self, root: Path, edition: Edition, seeds: int | None = None, trials: int | None = None) -> None:
        self.home, self.edition, self.codes = Home(root), edition, code_of
        self.outcomes = Outcomes(self.home)
        folder = self.home.study(edition.id)
        save_edition(edition, self.home)
        self.journal = Journal(folder.journal, folder.lock)
        self._counts = None if seeds is None else Counts(seeds=seeds, trials=trials)

    def __enter__(self) -> ByHand:
        self.journal.__enter__()
        if self._counts:
            self.journal.write(self._counts)
        return self

    def __exit__(self, *_: object) -> None:
        self.journal.__exit__()

    def plan(self, role: str, number: int, values: dict, name: str = "") -> Trial:
        trial = self.edition.trial(number, values, name, role)
        self.journal.write(Planned(role=role, number=number, name=trial.name, values=values))
        return trial

    def runs(self, arms: dict[str, dict], seeds: int) -> Iterator[tuple[Trial, int]]:
        """Plans the arms of an ablation, one after another; each with its seeds, whose runs the caller ends."""
        self.journal.write(Counts(seeds=seeds))
        for number, (name, values) in enumerate(arms.items()):
            trial = self.plan("trial", number, values, name)
            yield from ((trial, seed) for seed in range(seeds))

    def points(
        self, role: str, values: dict[int, dict], scores: Callable[[int, int], tuple[float, float]], seeds: int = 3
    ) -> None:
        """Plans points of a search by number, or confirmations, and ends all their seeds.

        `scores`: of a number and the place of a seed, the validation score and that of the test.
        """
        for number, one in values.items():
            trial = self.plan(role, number, one)
            for place, seed in enumerate(trial.seeds(seeds)):
                self.complete(trial, seed, *scores(number, place))

    def curve(self, trial: Trial, seed: int, final: float, epochs: int = EPOCHS) -> list[Measurement]:
        chance, noise = trial.recipe.data.chance("val"), random.Random(f"{trial.name} {seed}")
        said = []
        for epoch in range(1, epochs + 1):
            share = 1 - math.exp(-5 * epoch / EPOCHS) * (epoch < EPOCHS)
            wobble = noise.gauss(0, 0.01) * (epoch < EPOCHS)
            value = min(1.0, round(chance + (final - chance) * share + wobble, 3))
            values = {"train/loss": 1 - value, trial.score.metric: value, "time/epoch_s": 1.5}
            said.append(Measurement(epoch=epoch, values=values))
        return said

    def _tell(self, trial: Trial, seed: int, curve: list[Measurement]) -> dict:
        run = Run(recipe=trial.recipe, seed=seed)
        known = {"run": run.key, "code": self.codes(trial.recipe).digest}
        self.journal.write(Started(**known, attempt=1, seed=seed, label=trial.label))
        for said in curve:
            self.journal.write(Measured(**known, epoch=said.epoch, values=said.values))
        return known

    def complete(
        self, trial: Trial, seed: int, final: float, test: float, *, reused: bool = False, tests=None, **odd
    ) -> None:
        curve = self.curve(trial, seed, final)
        measured = curve[-1].values | {trial.score.test: test} | (tests or {})
        curve[-1] = Measurement(epoch=EPOCHS, values=measured)
        known = self._tell(trial, seed, curve)
        self._answer(trial, seed, Completed(curve=tuple(curve)), odd)
        self.journal.write(Ended(**known, outcome="completed", epoch=EPOCHS, reused=reused))

    def diverge(self, trial: Trial, seed: int, epoch: int) -> None:
        curve = self.curve(trial, seed, 0.6, epoch - 1)
        known = self._tell(trial, seed, curve)
        self._answer(trial, seed, Diverged(epoch=epoch, curve=tuple(curve), reason="train/loss is not finite"), {})
        self.journal.write(Ended(**known, outcome="diverged", epoch=epoch))

    def stop(self, trial: Trial, seed: int, final: float, epoch: int, cutoff: float) -> None:
        known = self._tell(trial, seed, self.curve(trial, seed, final, epoch))
        self.journal.write(StoppedAt(**known, epoch=epoch, cutoff=cutoff))

    def fail(self, trial: Trial, seed: int, reason: str) -> None:
        known = self._tell(trial, seed, self.curve(trial, seed, 0.7, 2))
        for _ in range(2):
            self.journal.write(FailedWith(**known, reason=reason))

    def _answer(self, trial: Trial, seed: int, outcome, odd: dict) -> None:
        run = Run(recipe=trial.recipe, seed=seed)
        code = self.codes(trial.recipe)
        self.outcomes.put(Answered(run=run, code=code, outcome=outcome, environment=ENVIRONMENT | odd), None)


def keep_weights(outcomes: Outcomes, key: str, name: str, *writes: Callable[[Path], object]) -> None:
    """Adds weights to an answer as a driver does; `writes`: what writes them, and their moving average."""
    with TemporaryDirectory() as folder:
        for file, write in zip((WEIGHTS, EMA_WEIGHTS), writes, strict=False):
            write(Path(folder) / file)
        outcomes.put(outcomes.get(key, name), Path(folder) / WEIGHTS)


def edit_lines(journal: Path, change: Callable[[str], str]) -> None:
    """Changes lines of a journal, and their checksums with them."""
    plain = [json.loads(change(line)) for line in journal.read_text().splitlines()]
    for said in plain:
        del said["sum"]
    journal.write_bytes(b"".join(map(line_of, plain)))


def base() -> Recipe:
    return Recipe(data=RedGreen(task="direction"), encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": EPOCHS})


def search() -> Study:
    return Study(
        name="reach",
        question="Which gamma lets Fourier features tell left from right?",
        paper="Zhang 2022, How to encode location in the Vision Transformer?, 3.3 and 5.1",
        expected="accuracy peaks for gamma between 1 and 5 patches and falls to chance far beyond the grid",
        base=base(),
        plan=Search(
            space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}),
            first=({"encoding.gamma": 2.5},),
            trials=10,
            stop=Halving(),
        ),
        published=(Published("best", 0.9964, 0.0032, "thesis table 1 (its gamma is not given)"),),
        claims=(AtLeast("best", 0.97), Better("best", "first")),
        gaps=("the thesis does not say image, patch and square sizes", "10 seeds there, 3 here"),
    )


def reach(gamma: float) -> float:
    """An invented answer: a hill over log gamma, at chance far away."""
    return round(0.5 + 0.495 * math.exp(-((math.log(gamma / 2.1) / 1.6) ** 4)), 3)


def searched(root: Path) -> str:
    """A search of ten points, five stopped, one diverged, one with a failed seed; the best three confirmed."""
    edition = search().at()
    gammas = [2.5, 0.3, 31.2, 1.74, 0.12, 8.4, 4.1, 12.0, 0.8, 2.31]
    noise = random.Random(7)
    jitter = lambda: round(noise.gauss(0, 0.002), 3)  # noqa: E731
    with ByHand(root, edition, seeds=3, trials=10) as hand:
        trials = [hand.plan("trial", number, {"encoding.gamma": gamma}) for number, gamma in enumerate(gammas)]
        for number, trial in enumerate(trials):
            score = reach(gammas[number])
            if number == 2:
                hand.diverge(trial, 0, 4)
            elif score < 0.9:
                hand.stop(trial, 0, score, 3 if score < 0.6 else 6, 0.85)
            else:
                for seed in range(3):
                    if (number, seed) == (6, 2):
                        hand.fail(trial, seed, "the worker died (exit code 137)")
                    else:
                        hand.complete(trial, seed, min(1, score + jitter()), min(1, score + jitter()))
        numbers = (9, 3, 0)
        hand.journal.write(Confirms(numbers=numbers))
        for number in numbers:
            trial = hand.plan("confirmation", number, {"encoding.gamma": gammas[number]})
            for seed in trial.seeds(3):
                hand.complete(trial, seed, min(1, reach(gammas[number]) + jitter()), reach(gammas[number]) + jitter())
    return edition.id


ARMS = {
    "none": {"encoding.kind": "none"},
    "learnable": {"encoding.kind": "learnable"},
    "sinusoidal": {"encoding.kind": "sinusoidal"},
    "fourier": {"encoding.kind": "fourier"},
    "peg": {"encoding.kind": "peg"},
    "relative bias": {"encoding.kind": "relative_bias"},
}


def with_parent(root: Path, child: dict, parent_name: str) -> str:
    """Writes two arms, of which the second has the values `child` and needs a parent, which is listed as p1."""
    arms = {"fresh": {}, "pretrained": child}
    edition = Study(name="children", question="?", base=base(), plan=Ablation(arms, "fresh"), seeds=2).at()
    with ByHand(root, edition, seeds=2) as hand:
        trials = [hand.plan("trial", number, values, name) for number, (name, values) in enumerate(arms.items())]
        (parent,) = trials[1].runs(1)[0].needs()
        hand.journal.write(Planned(role="parent", number=1, name=parent_name, values={"key": parent.key}))
        listed = trials[1].model_copy(update={"recipe": parent.recipe, "role": "parent", "number": 1})
        listed.__dict__.pop("score", None)  # of the child's data
        for seed in range(2):
            hand.complete(listed, seed, 0.9, 0.9 + 0.01 * seed)
            for trial in trials:
                hand.complete(trial, seed, 0.8, 0.8)
    return edition.id


def ablation() -> Study:
    return Study(
        name="encodings",
        question="Which position encodings tell left from right?",
        paper="Zhang 2022, table 1",
        base=base(),
        plan=Ablation(ARMS, "none"),
        seeds=5,
        published=(
            Published("learnable", 0.9812, 0.004, "table 1"),
            Published("fourier", 0.9964, 0.0032, "table 1"),
            Published("none", 0.5, None, "table 1"),
        ),
        claims=(
            AtChance("none", 0.03),
            Better("fourier", "learnable", source="table 1"),
            Equivalent("fourier", "peg", 0.01),
            AtLeast("sinusoidal", 0.95),
            AtLeast("relative bias", 0.9),
        ),
        gaps=("one block here, as in the thesis; its width is not given",),
    )


def ablated(root: Path) -> str:
    """Six arms of five seeds: one diverged in a seed, one failed in a seed, one trained on two threads."""
    edition = ablation().at()
    means = {"none": 0.502, "learnable": 0.972, "sinusoidal": 0.921, "fourier": 0.994, "peg": 0.992}
    noise = random.Random(3)
    with ByHand(root, edition, seeds=5) as hand:
        arms = [hand.plan("trial", n, values, name) for n, (name, values) in enumerate(ARMS.items())]
        for seed in range(5):
            for arm in arms:
                spread = 0.012 if arm.name == "none" else 0.004
                value, test = (min(1, round(means.get(arm.name, 0.96) + noise.gauss(0, spread), 3)) for _ in range(2))
                if (arm.name, seed) == ("relative bias", 3):
                    hand.fail(arm, seed, "CUDA error: out of memory")
                elif (arm.name, seed) == ("learnable", 2):
                    hand.diverge(arm, seed, 5)
                else:
                    hand.complete(arm, seed, value, test, reused=seed == 0, threads=2 if arm.name == "peg" else 1)
    return edition.id


def at_sides(root: Path) -> str:
    """Three arms of three seeds tested at two further sides; a seed of one diverged."""
    base_, arms = base().put({"test_sizes": [24, 64]}), {name: ARMS[name] for name in ("none", "learnable", "peg")}
    claims = (
        Better("peg", "learnable", 0.2, image_size=64),
        AtLeast("peg", 0.9, image_size=24),
        AtChance("none", 0.05, image_size=48),
    )
    study = Study(
        name="sides", question="What stays at other sides?", base=base_, plan=Ablation(arms, "none"), claims=claims
    )
    edition = study.at()
    means = {"none": (0.5, 0.5, 0.5), "learnable": (0.99, 0.8, 0.6), "peg": (0.98, 0.97, 0.95)}
    with ByHand(root, edition) as hand:
        for trial, seed in hand.runs(arms, 3):
            own, *others = (round(mean + 0.002 * seed, 3) for mean in means[trial.name])
            sides = {at_image_size("test/accuracy", side): score for side, score in zip((24, 64), others, strict=True)}
            if (trial.name, seed) == ("learnable", 1):
                hand.diverge(trial, seed, 5)
            else:
                hand.complete(trial, seed, own, own, tests=sides)
    return edition.id


def judge(
    claims: Sequence[Claim], scores_of: ScoresOf, departure: Departure | None = None, *, look: int = 1
) -> list[Verdict]:
    """The verdicts on claims of a page that tests no differences beside them."""
    return judge_page(claims, scores_of, {}, departure, look=look)[0]
