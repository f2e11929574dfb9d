"""The advice to a person with images of her own: what to take, what it costs, what is open."""

import random

from search_spaces.study import Ablation, Study
from service.analysis.headline import advice
from service.analysis.power import seeds_needed
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


def raced(root, means: dict[str, float] = MEANS, race: bool = True, got: dict[str, int] = GOT) -> Result:
    recipe = base().put({"test_sizes": [36]})
    edition = Study(name="mine", question="?", base=recipe, plan=Ablation(ARMS, "table", race=race), seeds=SEEDS).at()
    hand, noise = ByHand(root, edition), random.Random(0)
    with hand.journal:
        for trial, seed in hand.runs(ARMS, SEEDS):
            value = min(1.0, round(means[trial.name] + noise.gauss(0, 0.004), 3))
            tests = {at_image_size("test/accuracy", 36): value - 0.2, "memory/peak_gib": 1.25}
            if seed < got.get(trial.name, SEEDS):
                hand.complete(trial, seed, value, value, tests=tests)
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
    needed = seeds_needed(level.mean, std=level.estimate.error * SEEDS**0.5, alpha=level.adjusted.level)
    at_36 = {row.name: f"{row.test.mean - 0.2:.4f}" for row in (best, table)}
    assert advice(result) == [
        f"Take “{best.name}”. 6 seeds do not tell it apart from “{other}”.",
        f"It costs 1.25 GiB of memory (“table” 1.25) and {estimate_cost(best.recipe).parameters:,} parameters "
        f"({abs(more):,} {'more' if more > 0 else 'fewer'}).",
        f"On test images of 36 x 36 pixels “{best.name}” has {at_36[best.name]}, “table” has {at_36['table']}.",
        "Out of the race, as they could not be the best any more: “none” after 3 seeds.",
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


def test_a_task_that_every_arm_solves_is_called_too_easy(tmp_path) -> None:
    """Scores are cut at 1, so that all arms have it at each seed."""
    solved = advice(raced(tmp_path, dict.fromkeys(MEANS, 1.1), got={}))
    assert (
        solved[0] == "Nothing is decided: all 4 arms reach the highest score there is. The task is too easy for them."
    )
    assert not any(line.startswith("About") for line in solved)
