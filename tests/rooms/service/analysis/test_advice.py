"""The advice to a person with images of her own: what to take, what it costs, what is open."""

import random
import re

import pytest

from search_spaces.study import Ablation, Budget, Study
from service.analysis.headline import advice, headline
from service.analysis.power import seeds_needed
from service.analysis.statistics import level_of
from service.reporting.page import page
from service.results import Result
from service.storage.facts import StoppedAt
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base
from trainables.recipe.cost import estimate_cost
from trainables.recipe.outcome import at_image_size

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
    gpu: tuple[str, ...] = (),
    gap: str = "",
    lucky: int = 0,
) -> Result:
    """A study of four arms of six seeds, but for `got`; `failed`: of which the last run fails.

    `chance`: how many seeds stay at chance; `gpu`: arms that trained on one; `gap`: why its budget judges nothing.
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
                hand.complete(trial, seed, value, test, tests=more, **{"device": "H100"} if trial.name in gpu else {})
            elif seed == got[trial.name]:
                run = trial.run(seed)
                out = StoppedAt(run=run.key, code=hand.codes(run.recipe).digest, epoch=0, cutoff=0.9)
                hand.journal.write(out)
    return Result.open(Home(root), edition.id)


def test_it_says_what_to_take_what_that_costs_and_what_is_open(tmp_path) -> None:
    result = raced(tmp_path)
    best = result.best
    assert best is not None
    other = {"waves": "sines", "sines": "waves"}[best.name]
    table = next(row for row in result.of("trial") if row.name == "table")
    more = estimate_cost(best.recipe).parameters - estimate_cost(table.recipe).parameters
    gap = result.against_best(best, [row for row in result.of("trial") if row.test.complete and row is not best])
    level = next(one for row, one in gap.items() if result.rows[int(row)].name == other)
    later = level.adjusted.level * level_of(2) / level_of(1)
    needed = seeds_needed(level.mean, std=level.estimate.error * SEEDS**0.5, alpha=later, like=level.estimate)
    at_36 = {row.name: f"{row.test.mean - 0.2:.4f}" for row in (best, table)}
    assert advice(result) == [
        f"Take “{best.name}”. 6 seeds do not tell it apart from “{other}”.",
        f"It costs 1.25 GiB of memory (“table” 1.25) and {estimate_cost(best.recipe).parameters:,} parameters "
        f"({abs(more):,} {'more' if more > 0 else 'fewer'}).",
        f"On test images of 36 x 36 pixels “{best.name}” has {at_36[best.name]}, “table” has {at_36['table']}.",
        "Out of the race, as they were clearly below the best: “none” after 3 seeds.",
        f"{f'About {needed}' if needed else 'More than 1,000'} seeds would tell it apart from “{other}”, "
        "if the differences stay as they are.",
    ]
    found = page(result, {})
    assert found.headline.startswith(f"Take “{best.name}”. 6 seeds do not tell")
    assert found.advice == advice(result)[1:]


def test_a_clear_winner_and_no_winner(tmp_path) -> None:
    clear = raced(tmp_path / "clear", MEANS | {"sines": 0.7})
    assert advice(clear)[0] == "Take “waves”."
    assert not any("would tell it apart" in line for line in advice(clear))
    assert advice(raced(tmp_path / "none", dict.fromkeys(MEANS, 0.5))) == []
    alike = advice(raced(tmp_path / "alike", dict.fromkeys(MEANS, 0.9), got={}))[0]
    assert alike.startswith("Nothing is decided: 6 seeds tell no arm apart from “")
    assert advice(raced(tmp_path / "even", race=False)) == []


def test_an_arm_that_is_better_on_test_images_is_named(tmp_path) -> None:
    """Validation chooses waves; sines are as much better on test images as no luck of six seeds explains."""
    result = raced(tmp_path, MEANS | {"sines": 0.89}, got={}, tests=MEANS | {"sines": 0.95})
    assert result.best is not None
    assert result.best.name == "waves"
    assert " But on test images, which choose nothing, “sines” is 0.0" in headline(result)
    take = advice(result)[0]
    assert take.startswith("Nothing is decided: validation chooses “waves”. But on test images, which choose nothing, ")
    assert "“sines” is 0.0" in take
    told = re.search(
        r"“sines” is (\S+) above it \(\S+ % interval (\S+) to (\S+), p [<=] \S+; Holm over (\d+) differences\)", take
    )
    assert told is not None
    gap, low, high = map(float, told.groups()[:3])
    assert low < gap < high, "in the direction of the sentence"
    assert int(told[4]) == 4 * 3 / 2, "all pairs of four arms"


def test_the_baseline_is_told_apart_from_the_best_by_one_test(tmp_path) -> None:
    """Its difference is tested among three, and not once more among all six pairs."""
    result = raced(tmp_path, MEANS | {"table": 0.89}, got={}, tests=MEANS | {"table": 0.89})
    best = result.best
    assert best is not None
    gap = result.differences[best.name]
    table = next(row for row in result.of("trial") if row.name == "table")
    again = result.against_best(best, result.rivals(best, result.of("trial")))[table.trial.label]
    assert (again.p, again.interval) == (gap.p, pytest.approx(gap.interval))
    assert gap.significant
    assert "Not distinguishable from it: “table”" not in headline(result)
    assert "“table”" not in advice(result)[0]


def test_of_arms_that_tie_their_order_decides_nothing(tmp_path) -> None:
    """All have the highest validation score; on test images sines are best."""
    tests = {"table": 0.8, "waves": 0.9, "sines": 0.95, "none": 0.6}
    solved = dict.fromkeys(MEANS, 1.1)
    first = advice(raced(tmp_path, solved, got={}, tests={name: 1.1 - (1 - test) for name, test in tests.items()}))[0]
    assert first == "Take “sines”."


def test_nothing_is_to_take_before_all_is_there(tmp_path) -> None:
    """The arm that leads has one run that failed: it may still be the best."""
    failed = raced(tmp_path / "failed", MEANS | {"waves": 0.95}, failed=("waves",))
    assert advice(failed) == [
        "Nothing to take yet: 1 trial with failed runs. “waves” is ahead, with 5 of 6 seeds."
    ]  # fmt: skip
    assert "the arm “sines” comes out best so far" in headline(failed)
    behind = raced(tmp_path / "behind", failed=("table",))
    assert advice(behind) == ["Nothing to take yet: 1 trial with failed runs."]


def test_an_arm_at_chance_beside_equal_ones_decides_nothing(tmp_path) -> None:
    means = {"table": 0.9, "waves": 0.9, "sines": 0.9, "none": 0.5}
    assert advice(raced(tmp_path, means, got={}))[0].startswith("Nothing is decided: 6 seeds tell no arm apart from “")


def test_nothing_is_decided_among_the_arms_left_in_the_race(tmp_path) -> None:
    means = {"table": 0.9, "waves": 0.9, "sines": 0.9, "none": 0.5}
    said = advice(raced(tmp_path, means))
    assert said[0].startswith("Nothing is decided: 6 seeds tell none of the arms left in the race apart from “")
    assert "Out of the race, as they were clearly below the best: “none” after 3 seeds." in said


def test_no_seeds_are_named_where_some_fail(tmp_path) -> None:
    """More seeds do not tell how often an arm fails from how well it learns."""
    result = raced(tmp_path, MEANS | {"sines": 0.9}, got={})
    some = [line for line in advice(result) if "would tell it apart" in line]
    assert len(some) == 1

    failing = raced(tmp_path / "failing", MEANS | {"sines": 0.9}, got={}, chance={"sines": 2, "waves": 2})
    assert not [line for line in advice(failing) if "would tell it apart" in line]


def test_a_budget_that_judges_nothing_takes_nothing(tmp_path) -> None:
    assert advice(raced(tmp_path, gap="too few images")) == ["Nothing to take at smoke: too few images."]


def test_an_arm_that_guesses_on_test_images_is_not_taken(tmp_path) -> None:
    chosen = raced(tmp_path, got={}, tests=dict.fromkeys(MEANS, 0.5))
    assert advice(chosen)[0].startswith("Nothing is decided: none of 6 seeds of “")


def test_an_arm_with_one_lucky_seed_is_not_taken(tmp_path) -> None:
    chosen = raced(tmp_path, got={}, tests=dict.fromkeys(MEANS, 0.5), lucky=1)
    assert advice(chosen)[0].startswith("Nothing is decided: 1 of 6 seeds of “")
    assert ", which has the highest validation score, learns. A larger budget" in advice(chosen)[0]


def test_costs_of_two_machines_are_not_compared(tmp_path) -> None:
    costs = next(line for line in advice(raced(tmp_path, gpu=("waves", "sines"))) if line.startswith("It costs"))
    assert costs.startswith("It costs 1.25 GiB of memory and ")


def test_a_task_that_every_arm_solves_is_called_too_easy(tmp_path) -> None:
    """Scores are cut at 1, so that all arms have it at each seed."""
    solved = advice(raced(tmp_path, dict.fromkeys(MEANS, 1.1), got={}))
    assert (
        solved[0] == "Nothing is decided: all 4 arms reach the highest score there is. The task is too easy for them."
    )
    assert not any(line.startswith("About") for line in solved)


def test_what_is_taken_of_arms_that_tie_is_the_best_everywhere(tmp_path) -> None:
    """The arm of the advice is that of `locus export --model`, MLflow and the lines for timm."""
    tied = raced(tmp_path, dict.fromkeys(MEANS, 1.0), got={}, tests=MEANS | {"none": 0.5, "sines": 1.0})
    assert tied.best is not tied.winners[0], "the order of arms says nothing"
    assert tied.best.name == max(tied.winners, key=lambda row: row.test.mean).name
    assert f"“{tied.best.name}”" in advice(tied)[0]
