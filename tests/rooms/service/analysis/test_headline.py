"""The first sentence of a race, the sentences after it, and what to type next."""

import random

import pytest

from search_spaces.study import Ablation, Budget, Study
from service.analysis.headline import details, headline
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


def values(result: Result, name: str) -> list[float]:
    return [*result.scores[name].values.values()]


def level(result: Result) -> str:
    """The sentence of the arms that are not told apart from the best one."""
    return next((line for line in details(result) if line.startswith("Not told apart")), "")


@pytest.mark.usefixtures("words_only")
def test_it_says_what_to_take_what_that_costs_and_what_is_open(tmp_path) -> None:
    result = raced(tmp_path)
    best, table, waves = (result.named[name] for name in ("sines", "table", "waves"))
    assert result.best is best
    gap = best.test.mean - table.test.mean
    assert headline(result) == (
        f"Take “sines”: it is significantly above “table” on these 1,000 test images, by {gap:.4f}."
    )
    low, high = mean_interval(values(result, "sines"), 0.025 / 4)
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


def test_a_clear_winner_and_no_winner(tmp_path) -> None:
    clear = raced(tmp_path / "clear", MEANS | {"sines": 0.7})
    assert headline(clear).startswith("Take “waves”: it is significantly above “table”")
    assert not level(clear)
    nothing = "No trial is above chance (0.50): nothing was learned in 8 epochs."
    assert headline(raced(tmp_path / "none", dict.fromkeys(MEANS, 0.5))) == nothing
    alike = raced(tmp_path / "alike", dict.fromkeys(MEANS, 0.9), got={})
    assert headline(alike) == (
        "Nothing is decided: no trial is told apart from “sines”, the highest by validation on these 1,000 test images."
    )
    assert level(alike).count("can be seen") == 3
    even = headline(raced(tmp_path / "even", race=False, got={}))
    assert even.startswith("“sines” comes out best by validation: test accuracy 0.9")
    assert even.endswith(" on these 1,000 test images, significantly above “table”.")


def test_an_arm_that_is_better_on_test_images_is_named(tmp_path) -> None:
    """Validation chooses waves; sines are as much better on test images as no luck of six seeds explains."""
    result = raced(tmp_path, MEANS | {"sines": 0.89}, got={}, tests=MEANS | {"sines": 0.95})
    assert headline(result) == (
        "Nothing is decided: validation chooses “waves”, but “sines” is significantly above it on these 1,000 test "
        "images."
    )
    above = result.scores["sines"].mean - result.scores["waves"].mean
    said = f"On the test images, which choose nothing, “sines” is {above:.4f} above it (p < 0.0001, 6 seeds)."
    assert said in details(result)


def test_the_baseline_is_told_apart_from_the_best_by_one_test(tmp_path) -> None:
    """Its difference is tested among three, and not once more among all six pairs."""
    result = raced(tmp_path, MEANS | {"table": 0.89}, got={}, tests=MEANS | {"table": 0.89})
    best = result.best
    assert best is not None
    gap = result.differences[best.name]
    table = next(row for row in result.of("trial") if row.name == "table")
    again = result.against_best(best, result.rivals(best, result.of("trial")))[table.trial.label]
    ps = sorted(two_sided(values(result, name), values(result, "table")) for name in ("waves", "sines", "none"))
    rank = ps.index(pytest.approx(two_sided(values(result, best.name), values(result, "table")), rel=1e-6))
    expected = max((3 - place) * p / 0.75 for place, p in enumerate(ps[: rank + 1]))
    assert gap.p == pytest.approx(expected, rel=1e-6)
    assert (again.p, again.interval) == (gap.p, pytest.approx(gap.interval))


def test_arms_that_reach_the_highest_score_find_the_task_too_easy(tmp_path) -> None:
    solved = raced(tmp_path, dict.fromkeys(MEANS, 1.1), got={}, tests={name: 1.1 for name in MEANS} | {"sines": 1.15})
    assert headline(solved) == "All 4 trials reach the highest score there is: the task is too easy for them."


def test_nothing_is_to_take_before_all_is_there(tmp_path) -> None:
    """The arm that leads has one run that failed: it may still be the best."""
    failed = raced(tmp_path, MEANS | {"waves": 0.95}, failed=("waves",))
    assert headline(failed) == "Nothing to take yet: runs failed; “waves” is ahead, with 5 of 6 seeds."
    assert details(failed)[-1] == "Not finished: 1 trial with failed runs."


def test_where_an_arm_that_the_race_has_ended_is_ahead_nothing_is_taken(tmp_path) -> None:
    """Two of six seeds of the arm that it was below are at chance; more seeds would not bring it back."""
    result = raced(tmp_path, MEANS | {"sines": 0.97}, got={"waves": 3}, chance={"sines": 2})
    assert headline(result) == (
        "Nothing is decided: “waves”, which the race has ended, is ahead; compare without a race."
    )
    assert "Ended by the race (validation): “waves” after 3 seeds." in details(result)
    assert (result.best, result.winners) == (None, [])
    with pytest.raises(LocusError, match="no best trial: the race has ended “waves”, which is ahead"):
        result.trial()


@pytest.mark.parametrize("got", [{}, GOT])
def test_an_arm_at_chance_beside_equal_ones_is_what_the_best_is_told_apart_from(tmp_path, got) -> None:
    """So it is where the race has ended that arm: it stays in view with the seeds it has."""
    result = raced(tmp_path, {"table": 0.9, "waves": 0.9, "sines": 0.9, "none": 0.5}, got=got)
    assert headline(result) == "Take “sines”: it is told apart from 1 other trial on these 1,000 test images."
    assert "“table”" in level(result)
    assert "“none”" not in level(result)


def test_a_budget_that_judges_nothing_takes_nothing(tmp_path) -> None:
    assert headline(raced(tmp_path, gap="too few images")).startswith("“sines” comes out best by validation: ")


def test_seeds_that_fail_are_said_with_the_mean_of_all(tmp_path) -> None:
    """Two of six seeds at chance: the mean is that of six, and the interval says so."""
    result = raced(tmp_path, MEANS | {"sines": 0.97, "table": 0.6}, got={}, chance={"sines": 2, "waves": 2})
    own = [0.5, 0.5, *values(result, "sines")[2:]]
    groups = f"4 of 6 seeds at {sum(own[2:]) / 4:.2f}, 2 failed (0.50)"
    assert result.best.name == "sines"
    assert details(result)[0].startswith(f"“sines” has test accuracy {sum(own) / 6:.4f} (95 % interval ")
    assert details(result)[0].endswith(f", {groups}).")


@pytest.mark.parametrize("lucky", [0, 1])
def test_an_arm_that_guesses_on_test_images_is_not_taken(tmp_path, lucky) -> None:
    chosen = raced(tmp_path, got={}, tests=dict.fromkeys(MEANS, 0.5), lucky=lucky)
    assert headline(chosen).startswith("Nothing is decided: no trial is told apart from “sines”")


def test_what_is_taken_of_arms_that_tie_is_the_best_everywhere(tmp_path) -> None:
    """The arm whose costs are told is that of `locus export --model`, MLflow and the lines for timm."""
    tied = raced(tmp_path, MEANS | dict.fromkeys(("waves", "sines"), 1.1), got={}, tests=MEANS | {"waves": 1.0})
    assert headline(tied) == "“waves” and “sines” tie with the highest validation accuracy, 1.0000."
    assert tied.best.name == max(tied.winners, key=lambda row: row.test.mean).name
    assert f"On test images of 36 x 36 pixels “{tied.best.name}”" in details(tied)[-1]
