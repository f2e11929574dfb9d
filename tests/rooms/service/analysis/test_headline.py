"""What the first sentence of a race finds, and the sentences after it; `test_findings` has how they read."""

import random

import pytest

from search_spaces.study import Ablation, Budget, Study
from service.analysis.headline import answer, details, headline
from service.reporting.page import page
from service.results import Result
from service.storage.facts import StoppedAt
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base
from tests.rooms.service.analysis.logits import mean_interval, two_sided
from trainables.recipe.cost import estimate_cost
from trainables.recipe.outcome import at_image_size
from trainables.spec import LocusError

ARMS = {"table": {"encoding.kind": "learnable"}, "waves": {"encoding.gamma": 2.0}, "sines": {"encoding.gamma": 3.0},
        "none": {"encoding.kind": "none"}}  # fmt: skip
MEANS = {"table": 0.8, "waves": 0.9, "sines": 0.899, "none": 0.6}
SEEDS, GOT = 6, {"none": 3}


def raced(
    root,
    means: dict[str, float] = MEANS,
    race: bool = True,
    got: dict[str, int] = GOT,
    tests: dict[str, float] | None = None,
    failed: tuple[str, ...] = (),
    chance: dict[str, int] | None = None,
    gap: str = "",
    lucky: int = 0,
) -> Result:
    """A study of four arms of six seeds, but for `got`; `failed`: of which the last run fails.

    `chance`: how many seeds stay at chance; `gap`: why its budget judges nothing.
    `lucky`: how many seeds score higher on test images.
    """
    recipe = base().put({"test_sizes": [36]})
    budgets = {"smoke": Budget({}, gap=gap)} if gap else {}
    plan = Ablation(ARMS, "table", race=race)
    edition = Study(name="mine", question="?", base=recipe, plan=plan, seeds=SEEDS, budgets=budgets).at(*budgets)
    hand, noise = ByHand(root, edition), random.Random(0)
    with hand.journal:
        for trial, seed in hand.runs(ARMS, SEEDS):
            value = min(1.0, round(means[trial.name] + noise.gauss(0, 0.004), 3))
            test = round(value + (tests or means)[trial.name] - means[trial.name] + 0.3 * (seed < lucky), 3)
            more = {at_image_size("test/accuracy", 36): test - 0.2, "memory/peak_gib": 1.25}
            if seed < (chance or {}).get(trial.name, 0):
                value = test = 0.5
            if trial.name in failed and seed == SEEDS - 1:
                hand.fail(trial, seed, "no memory")
            elif seed < got.get(trial.name, SEEDS):
                hand.complete(trial, seed, value, test, tests=more)
            elif seed == got[trial.name]:
                run = trial.run(seed)
                out = StoppedAt(run=run.key, code=hand.codes(run.recipe).digest, epoch=0, cutoff=0.9)
                hand.journal.write(out)
    return Result.open(Home(root), edition.id)


LEVEL = "headline.all level"
CASES = {
    "a clear winner": ({"means": MEANS | {"sines": 0.7}}, "headline.take", {"name": "waves", "partner": "table"}),
    "at chance": ({"means": dict.fromkeys(MEANS, 0.5)}, "headline.at chance", {"chance": 0.5, "epochs": 8}),
    "alike": ({"means": dict.fromkeys(MEANS, 0.9), "got": {}}, LEVEL, {"name": "sines"}),
    "no race": ({"race": False, "got": {}}, "headline.best", {"name": "sines"}),
    "a budget that judges nothing": ({"gap": "too few images"}, "headline.best", {"name": "sines"}),
    "the highest score": (
        {"means": dict.fromkeys(MEANS, 1.1), "got": {}, "tests": dict.fromkeys(MEANS, 1.1) | {"sines": 1.15}},
        "headline.too easy",
        {"trials": 4},
    ),
    "a run of the leader failed": (
        {"means": MEANS | {"waves": 0.95}, "failed": ("waves",)},
        "headline.race failed",
        {"name": "waves", "seeds": 5, "asked": 6},
    ),
    "validation chooses another than the tests": (
        {"means": MEANS | {"sines": 0.89}, "got": {}, "tests": MEANS | {"sines": 0.95}},
        "headline.another above",
        {"name": "waves", "other": "sines"},
    ),
    "an arm at chance beside equal ones": (
        {"means": {"table": 0.9, "waves": 0.9, "sines": 0.9, "none": 0.5}, "got": {}},
        "headline.take of others",
        {"name": "sines", "others": 1},
    ),
    "the same, where the race has ended that arm": (
        {"means": {"table": 0.9, "waves": 0.9, "sines": 0.9, "none": 0.5}},
        "headline.take of others",
        {"name": "sines", "others": 1},
    ),
    "guessing on test images": ({"got": {}, "tests": dict.fromkeys(MEANS, 0.5)}, LEVEL, {"name": "sines"}),
    "a lucky guess": ({"got": {}, "tests": dict.fromkeys(MEANS, 0.5), "lucky": 1}, LEVEL, {"name": "sines"}),
}


@pytest.mark.parametrize("case", CASES)
def test_the_first_sentence_finds(case, tmp_path) -> None:
    study, kind, values = CASES[case]
    found = answer(raced(tmp_path, **study))
    assert (found.kind, {name: found.values[name] for name in values}) == (kind, values)
    assert str(found.values.get("images") or " on these 1,000 test images") == " on these 1,000 test images"


def scores_of(result: Result, name: str) -> list[float]:
    return [*result.scores[name].values.values()]


@pytest.mark.usefixtures("words_only")
def test_it_says_what_to_take_what_that_costs_and_what_is_open(tmp_path) -> None:
    result = raced(tmp_path)
    best, table, waves = (result.named[name] for name in ("sines", "table", "waves"))
    assert result.best is best
    gap = best.test.mean - table.test.mean
    assert headline(result) == (
        f"Take “sines”: it is significantly above “table” on these 1,000 test images, by {gap:.4f}."
    )
    low, high = mean_interval(scores_of(result, "sines"), 0.025 / 4)
    more = estimate_cost(best.recipe).parameters - estimate_cost(table.recipe).parameters
    score, beside, apart, *rest = details(result)
    assert score == (
        f"“sines” has test accuracy {best.test.mean:.4f} (95 % interval for the best of 4: {low:.4f} to {high:.4f}, "
        "6 seeds)."
    )
    assert beside.startswith(f"It is {gap:.4f} above “table” (95 % interval ")
    assert beside.endswith(", p < 0.0001, 6 seeds).")
    assert apart.startswith(
        f"Not told apart from it: “waves”, {best.test.mean - waves.test.mean:.4f} below it (6 seeds"
    )
    assert rest == [
        "Ended by the race (validation): “none” after 3 seeds.",
        f"It costs {estimate_cost(best.recipe).parameters:,} parameters ({more:,} more).",
        f"On test images of 36 x 36 pixels “sines” has {best.test.mean - 0.2:.4f} and “table” has "
        f"{table.test.mean - 0.2:.4f}.",
    ]
    found = page(result, {})
    assert (found.headline, found.details) == (headline(result), details(result))


def test_further_findings_name_who_is_level_above_and_missing(tmp_path) -> None:
    """None is level with a clear winner; of equal arms all are, but for one at chance."""
    clear = raced(tmp_path / "clear", MEANS | {"sines": 0.7})
    assert "Not told apart" not in " ".join(details(clear))
    equal = raced(tmp_path / "equal", {"table": 0.9, "waves": 0.9, "sines": 0.9, "none": 0.5})
    (level,) = [line for line in details(equal) if line.startswith("Not told apart from it: ")]
    assert [f"“{name}”" in level for name in ("table", "waves", "none")] == [True, True, False]
    failed = raced(tmp_path / "failed", failed=("waves",))
    assert details(failed)[-1] == "Not finished: 1 trial with failed runs."
    other = raced(tmp_path / "other", MEANS | {"sines": 0.89}, got={}, tests=MEANS | {"sines": 0.95})
    above = other.scores["sines"].mean - other.scores["waves"].mean
    said = f"On the test images, which choose nothing, “sines” is {above:.4f} above it (p < 0.0001, 6 seeds)."
    assert said in details(other)


def test_the_baseline_is_told_apart_from_the_best_by_one_test(tmp_path) -> None:
    """Its difference is tested among three, and not once more among all six pairs."""
    result = raced(tmp_path, MEANS | {"table": 0.89}, got={}, tests=MEANS | {"table": 0.89})
    best = result.best
    assert best is not None
    gap = result.differences[best.name]
    table = next(row for row in result.of("trial") if row.name == "table")
    again = result.against_best(best, result.rivals(best, result.of("trial")))[table.trial.label]
    ps = sorted(two_sided(scores_of(result, name), scores_of(result, "table")) for name in ("waves", "sines", "none"))
    rank = ps.index(pytest.approx(two_sided(scores_of(result, best.name), scores_of(result, "table")), rel=1e-6))
    expected = max((3 - place) * p / 0.75 for place, p in enumerate(ps[: rank + 1]))
    assert gap.p == pytest.approx(expected, rel=1e-6)
    assert (again.p, again.interval) == (gap.p, pytest.approx(gap.interval))


def test_where_an_arm_that_the_race_has_ended_is_ahead_nothing_is_taken(tmp_path) -> None:
    """Two of six seeds of the arm that it was below are at chance; more seeds would not bring it back."""
    result = raced(tmp_path, MEANS | {"sines": 0.97}, got={"waves": 3}, chance={"sines": 2})
    assert headline(result).startswith("Nothing is decided: “waves”, which the race has ended, is ahead; ")
    assert "Ended by the race (validation): “waves” after 3 seeds." in details(result)
    assert (result.best, result.winners) == (None, [])
    with pytest.raises(LocusError, match="no best trial: the race has ended “waves”, which is ahead"):
        result.trial()
