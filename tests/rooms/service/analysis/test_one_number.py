"""One study, one number: every surface shows the same mean and interval, in short sentences that grow no weaker."""

import csv
import html
import random
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from mlflow.tracking import MlflowClient

from search_spaces.study import Ablation, Score, Study
from service.analysis.format import fixed
from service.analysis.headline import details, headline, next_seeds
from service.analysis.multiple_testing import subtracted, together
from service.analysis.statistics import ALPHA, Scale, Scores, share_of
from service.recording import of_result
from service.results import Result
from service.storage.facts import Counts, StoppedAt
from service.storage.home import Home
from service.storage.journal import read
from service.terminal import views
from service.tracking.rows import Conclusion
from service.tracking.sync import MlflowSync
from tests.rooms.by_hand import ByHand, ablated, at_sides, base, searched
from tests.rooms.service.analysis.test_axes import crossed
from tests.rooms.service.execution.test_driver_tuning import fair
from tests.rooms.toy import conduct
from trainables.recipe import Recipe
from trainables.recipe.outcome import at_image_size

pytestmark = pytest.mark.usefixtures("words_only")

ARMS = {"learnable": {"encoding.kind": "learnable"}, "peg": {"encoding.kind": "peg"}, "waves": {"encoding.gamma": 2.0}}
MEANS = {"learnable": 0.8, "peg": 0.83, "waves": 0.95}
ScoreOf = Callable[[str, int], float | None]
"""The score of an arm at a seed; None for one that the race did not give."""


def noisy(means: dict[str, float], noise: float = 0.006, draw: int = 1) -> ScoreOf:
    return lambda name, seed: means[name] + random.Random(f"{draw} {name} {seed}").gauss(0, noise)


class Made:
    """A study of three arms in a home, whose runs are written one look after another."""

    def __init__(self, root: Path, name: str, *, recipe: Recipe | None = None, arms=ARMS, **plan) -> None:
        recipe = recipe or base()
        score = Score(f"val/{recipe.data.metric}")
        study = Study(name, "Which?", recipe, Ablation(arms, next(iter(arms)), **plan), seeds=2, score=score)
        self.hand, self.arms, self.done, self.trials = ByHand(root, study.at()), arms, 0, []
        data = self.hand.edition.study.base.data
        self.images = data.image_counts.test if data.metric == "accuracy" else 10_000

    def look(self, seeds: int, score: ScoreOf, diverged: tuple[tuple[str, int], ...] = (), sides: tuple[int, ...] = ()):
        hand = self.hand
        with hand.journal:
            hand.journal.write(Counts(seeds=seeds))
            places = enumerate(self.arms.items())
            self.trials = self.trials or [hand.plan("trial", place, values, name) for place, (name, values) in places]
            for trial in self.trials:
                for seed in range(self.done, seeds):
                    value, run = score(trial.name, seed), trial.run(seed)
                    if (trial.name, seed) in diverged:
                        hand.diverge(trial, seed, 5)
                    elif value is None:
                        code = hand.codes(run.recipe).digest
                        hand.journal.write(StoppedAt(run=run.key, code=code, epoch=0, cutoff=0.9))
                    else:
                        value = min(1.0, round(value * self.images) / self.images)
                        tests = {at_image_size("test/accuracy", side): value - 0.1 for side in sides}
                        hand.complete(trial, seed, value, value, tests=tests)
        self.done = seeds
        return Result.open(hand.home, hand.edition.id)


def one_fails(name: str, seed: int) -> float:
    return 0.5 if (name, seed) == ("waves", 2) else noisy(MEANS | {"waves": 0.99})(name, seed)


def ended(name: str, seed: int) -> float | None:
    means = {"learnable": 0.6, "peg": 0.8, "waves": 0.95}
    return None if name == "learnable" and seed > 2 else noisy(means)(name, seed)


def tied(name: str, seed: int) -> float:
    return {"learnable": 0.8, "peg": 0.9, "waves": 0.9}[name] + 0.01 * (seed if name == "peg" else 4 - seed)


def tuned(root: Path) -> Result:
    conduct(Home(root), edition := fair(2, seeds=3))
    return Result.open(Home(root), edition.id)


DISTANCE = base().put({"data.task": "distance"})
SIZES = base().put({"test_sizes": [36, 48]})
PEG_FIRST = {"peg": ARMS["peg"], "learnable": ARMS["learnable"], "waves": ARMS["waves"]}
MADE: dict[str, Callable[[Path], Result]] = {
    "ablation": lambda root: Made(root, "plain").look(5, noisy(MEANS)),
    "a seed that failed": lambda root: Made(root, "failed").look(5, one_fails),
    "a seed that diverged": lambda root: Made(root, "lost").look(5, one_fails, (("waves", 4),)),
    "a race with an ended arm": lambda root: Made(root, "raced", arms=PEG_FIRST, race=True).look(6, ended),
    "a tuned ablation": tuned,
    "a tie": lambda root: Made(root, "tied").look(5, tied),
    "axes": crossed,
    "a search with confirmed points": lambda root: Result.open(Home(root), searched(root)),
    "two image sizes": lambda root: Made(root, "sizes", recipe=SIZES).look(5, noisy(MEANS), sides=(36, 48)),
    "R2": lambda root: Made(root, "far", recipe=DISTANCE).look(5, noisy(MEANS)),
}  # fmt: skip


@pytest.fixture(scope="module")
def root(tmp_path_factory) -> Path:
    """A home with a whole MLflow database, which all studies share."""
    return tmp_path_factory.mktemp("home")


@pytest.fixture(scope="module", params=[*MADE])
def result(request, root) -> Result:
    return MADE[request.param](root)


Numbers = tuple[str, str, str]
NUMBER = r"(−?\d\.\d{4})"


def of_sentence(text: str, who: str, metric: str) -> Numbers:
    """The mean and the interval that a text says of a trial."""
    text = " ".join(html.unescape(text).split())
    said = rf"{re.escape(who)} has {metric} {NUMBER} \(95 % interval(?: for the best of \d+:)? {NUMBER} to {NUMBER}"
    found = re.search(said, text)
    assert found, text[:2000]
    return found.groups()


def of_scores(scores: Scores) -> Numbers:
    return fixed(scores.mean), *map(fixed, scores.interval)


def in_mlflow(result: Result) -> str:
    """The description of the study in a real store."""
    sync = MlflowSync(result.edition, result.home)
    sync.open()
    for fact in read(result.home.study(result.edition.id).journal)[0]:
        sync.add(fact)
    assert sync.close("FINISHED", None, Conclusion.of(result)) is None
    client = MlflowClient(result.home.tracking)
    found = client.search_runs([one.experiment_id for one in client.search_experiments()])
    (study,) = [run for run in found if run.info.run_name == result.edition.id]
    assert study.data.tags["locus.headline"] == headline(result)
    return study.data.tags["mlflow.note.content"]


def test_every_surface_shows_the_same_mean_and_interval(result, capsys) -> None:
    best, metric = result.best, "test R²" if result.edition.study.score.test == "test/r2" else "test accuracy"
    search = not isinstance(result.edition.study.plan, Ablation)
    who = f"#{best.trial.number} ({best.name})" if search else f"“{best.name}”"
    expected = of_scores(best.test)
    assert fixed(float(np.mean([*best.test.values.values()]))) == expected[0], "of all seeds"
    views.answer(result)
    page = result.report()
    rows = {row["trial"]: row for row in csv.DictReader(page.with_name("trials.csv").read_text().splitlines())}
    columns = ("test_mean", "test_low", "test_high")
    in_csv = tuple(fixed(float(rows[best.trial.label][column])) for column in columns)
    table = result.trials().set_index("trial").loc[best.trial.label]
    shown = csv.reader(page.with_name("table-results.csv").read_text().splitlines())
    of_page = [row for row in shown if any(cell.startswith(f"{expected[0]} ± ") for cell in row)]
    bold = [line for line in result.latex().splitlines() if line.startswith(r"\textbf{") and expected[0] in line]
    (row,) = [row for row in of_result(result).rows if row.name == ("best" if search else best.name)]
    found = {
        "terminal": of_sentence(capsys.readouterr().out, who, metric),
        "page": of_sentence(page.read_text(), who, metric),
        "table of the page": tuple(re.findall(NUMBER, " ".join(of_page[0]).split(" ± ")[0])[-1:])
        + tuple(next(re.fullmatch(rf"{NUMBER} to {NUMBER}", cell) for cell in of_page[0] if " to " in cell).groups()),
        "trials.csv": in_csv,
        "LaTeX": re.search(rf"{NUMBER} \$\\pm\$ [\d.]+ \({NUMBER} to {NUMBER}\)", bold[0]).groups(),
        "MLflow": of_sentence(in_mlflow(result), who, metric),
        "Python": tuple(fixed(table[column]) for column in columns),
        "record": (fixed(row.test.mean), *map(fixed, row.test.interval)),
    }
    assert found == dict.fromkeys(found, expected)
    brief(result)


def brief(result: Result) -> None:
    """The first sentence has 25 words and two numbers at most; the name of a trial is a word."""
    text = headline(result)
    plain = re.sub(r"#\w+ \([^)]*\)|“[^”]*”", "NAME", text)
    assert len(plain.split()) <= 25, text
    assert len(re.findall(r"\d[\d.,]*", plain)) <= 2, text
    assert re.fullmatch(r"[^.]*(\.\d[^.]*)*\.", text), f"one sentence: {text}"


UNSURE: dict[str, Callable[[Path], Result]] = {
    "chance": lambda root: Made(root, "chance").look(3, noisy(dict.fromkeys(MEANS, 0.5))),
    "nothing": lambda root: Made(root, "nothing", race=True).look(4, noisy(dict.fromkeys(MEANS, 0.9))),
    "two seeds": lambda root: Made(root, "two", race=True).look(2, noisy(MEANS)),
    "six": lambda root: Result.open(Home(root), ablated(root)),
    "sides": lambda root: Result.open(Home(root), at_sides(root)),
    "solved": lambda root: Made(root, "solved").look(3, noisy(dict.fromkeys(MEANS, 1.5))),
}


@pytest.mark.parametrize("name", UNSURE)
def test_first_sentences_are_short_where_little_is_known(name, tmp_path) -> None:
    brief(UNSURE[name](tmp_path))


def test_first_sentences_are_short_at_each_moment_of_a_race_and_of_a_search(tmp_path) -> None:
    """The journal of a study is cut after each tenth fact."""
    made = Made(tmp_path, "raced", race=True)
    made.look(4, noisy(MEANS))
    for id in (made.hand.edition.id, searched(tmp_path)):
        journal = Home(tmp_path).study(id).journal
        lines = journal.read_bytes().splitlines(keepends=True)
        for count in range(1, len(lines), 10):
            journal.write_bytes(b"".join(lines[:count]))
            brief(Result.open(Home(tmp_path), id))


# the story of a newcomer: 80 images of her own, five seeds, then two more

FEW = base().put({"data.val_size": 80, "data.test_size": 80})
ROUGH = {0: 0, 1: 1, 2: -1, 3: 1, 4: 0, 5: -1, 6: 0}
AHEAD = (7, 5, 8, 5, 6, -3, -2)
"""By how many of 80 images waves are ahead, at each seed."""


def newcomer(name: str, seed: int) -> float:
    return (60 + ROUGH[seed] + {"learnable": 0, "peg": -2, "waves": AHEAD[seed]}[name]) / 80


def test_what_five_seeds_found_two_worse_ones_do_not_take_away(tmp_path, capsys) -> None:
    made = Made(tmp_path, "mine", recipe=FEW, race=True)
    first = made.look(5, newcomer)
    gap = first.differences["waves"]
    mean, later = np.mean(AHEAD[:5]) / 80, np.mean(AHEAD) / 80
    took = f"Take “waves”: it is significantly above “learnable” on these 80 test images, by {mean:.4f}."
    assert (headline(first), gap.significant, gap.p < 0.05) == (took, True, True)
    second = made.look(7, newcomer)
    assert (second.history.looks, second.best.test.n) == (2, 7)
    again = second.differences["waves"]
    assert (headline(second), again.p, again.interval, again.estimate.n) == (took, gap.p, gap.interval, 5)
    assert (again.later.mean, again.later.estimate.n) == (pytest.approx(later), 7)
    assert not again.later.significant
    views.answer(second)
    for text in (capsys.readouterr().out, html.unescape(second.report().read_text())):
        assert f"5 seeds; with 7: {later:.4f}" in " ".join(text.split())


# what to type next


def test_of_equal_arms_more_seeds_decide_nothing(tmp_path) -> None:
    """At least 9 of 10 studies of three arms in a race say that they are done."""
    equal = dict.fromkeys(ARMS, 0.9)
    made = (Made(tmp_path, f"mine-{draw}", race=True).look(4, noisy(equal, 0.01, draw)) for draw in range(50))
    assert sum(next_seeds(result) is not None for result in made) <= 5


def test_the_seeds_that_are_named_have_the_power_that_is_said(tmp_path) -> None:
    """Arms are drawn anew with the difference and the spread that were seen, at the level of the next look."""
    gaps = (0.03, 0.008, 0.042, 0.02)
    arms = {name: ARMS[name] for name in ("peg", "waves")}
    made = Made(tmp_path, "apart", arms=arms)
    result = made.look(4, lambda name, seed: 0.7 + gaps[seed] * (name == "waves"))
    seeds = next_seeds(result)
    assert (seeds.away, seeds.level) == (pytest.approx(np.mean(gaps)), pytest.approx(ALPHA * share_of(2)))
    noise, scale, times = np.random.default_rng(0), Scale(0.5, 0.0, 1.0, 0.001), 400

    def again() -> bool:
        drawn = np.mean(gaps) + np.std(gaps, ddof=1) * noise.standard_normal(seeds.seeds)
        who = Scores(dict(enumerate(0.7 + drawn)), seeds.seeds, scale)
        than = Scores(dict.fromkeys(range(seeds.seeds), 0.7), seeds.seeds, scale)
        return together(subtracted({"gap": (who, than)}), look=2)["gap"].significant

    assert 0.72 < sum(again() for _ in range(times)) / times < 0.88


def test_an_arm_that_the_race_has_ended_asks_for_no_seeds(tmp_path) -> None:
    """It is not told apart by its three seeds; those of the best arm alone would not change that."""
    gaps = (0.004, 0.03, 0.05)
    arms = {name: ARMS[name] for name in ("peg", "waves")}

    def score(name: str, seed: int) -> float | None:
        return 0.9 if name == "waves" else 0.9 - gaps[seed] if seed < 3 else None

    result = Made(tmp_path, "mine", arms=arms, race=True).look(6, score)
    (row,) = [row for row in result.of("trial") if row.answer.raced]
    assert row.trial.label in result.level_with(result.best, result.of("trial"))
    assert next_seeds(result) is None
    assert "Ended by the race (validation): “peg” after 3 seeds." in details(result)
