"""What the length of training changes: who is ahead at which length, and whether scores still rise."""

from pathlib import Path
from statistics import fmean

import pytest

from search_spaces.record import Record
from search_spaces.study import Ablation, Study
from service.analysis.across_trials import length_scores
from service.analysis.headline import details, headline
from service.analysis.study_status import paragraphs
from service.recording import of_result
from service.reporting.figures.curves import Line, panel_of_lines
from service.reporting.figures.plot import Look
from service.reporting.page import page
from service.results import Result
from service.storage.home import Home
from tests.rooms.by_hand import ByHand, base
from trainables.recipe.outcome import Measurement

ARMS = {"table": {"encoding.kind": "learnable"}, "waves": {"encoding.gamma": 2.0}, "sines": {"encoding.gamma": 3.0}}
TURNS = {"table": (0.60, 0.64, 0.66), "waves": (0.66, 0.78, 0.90), "sines": (0.70, 0.77, 0.80)}
"""By arm, the scores at 2, 4 and 6 epochs."""
SEEDS = 5


class AtLengths(ByHand):
    """Runs of six epochs that are measured at two and four, too; a cooldown is an epoch. `ends`: by arm."""

    ends: dict[str, tuple[float, ...]]

    def curve(self, trial, seed, final, epochs=8):
        low = trial.recipe.data.chance("val")
        scores = [low, self.ends[trial.name][0], low, low, self.ends[trial.name][1], low, low, self.ends[trial.name][2]]
        noise = [0.004 * (seed - 2) * (-1) ** epoch for epoch in range(8)]
        values = [round(score + more, 4) for score, more in zip(scores, noise, strict=True)]
        return [
            Measurement(epoch=n, values={"train/loss": 0.5, trial.score.metric: value, "time/epoch_s": 1.0})
            for n, value in enumerate(values[:epochs], 1)
        ]


def studied(root: Path, ends=TURNS, got: dict[str, int] | None = None, diverged: str = "") -> Result:
    """A race in which arms have so many seeds as `got` says; seed 1 of `diverged` diverges in epoch 4."""
    lengths = {"optimizer.schedule": "wsd", "optimizer.epochs": 6, "optimizer.lengths": [2, 4]}
    plan = Ablation(ARMS, "table", race=True)
    study = Study(name="mine", question="?", base=base().put(lengths), plan=plan, seeds=SEEDS)
    hand = AtLengths(root, study.at())
    hand.ends = ends
    with hand.journal:
        for trial, seed in hand.runs(ARMS, SEEDS):
            value = hand.curve(trial, seed, 0.0)[-1].values[trial.score.metric]
            if trial.name == diverged and seed == 1:
                hand.diverge(trial, seed, 4)
            elif seed < (got or {}).get(trial.name, SEEDS):
                hand.complete(trial, seed, value, value)
    return Result.open(Home(root), study.at().id)


def test_the_first_sentence_says_for_which_length_it_holds(tmp_path) -> None:
    result = studied(tmp_path)
    assert headline(result) == (
        "Trained 6 epochs, where scores still rise, take “waves”: it is significantly above “table” on these test "
        "images, by 0.2400."
    )
    said = details(result)
    assert "Ahead by validation: “sines” at 2 epochs; “waves” at 4 and 6 epochs." in said
    [gain] = [line for line in said if "doubling" in line]
    assert gain.startswith(
        "At the longest training a doubling of its length brings 0.09"
    )  # (.02 + .12 + .03) / 3 / .585
    assert page(result, {}).figures[0].name == "lengths"


def test_scores_are_taken_where_a_cooldown_ends_and_a_diverged_seed_is_at_chance(tmp_path) -> None:
    result = studied(tmp_path, diverged="waves")
    scores = length_scores(result.named["waves"])
    assert {length: scores[length][2] for length in scores} == dict(zip((2, 4, 6), TURNS["waves"], strict=True))
    assert [scores[length][1] for length in (4, 6)] == [0.5, 0.5]
    assert scores[2][1] == pytest.approx(TURNS["waves"][0], abs=0.01)
    assert result.named["waves"].validation.values[1] == 0.5


def test_a_record_has_the_validation_scores_at_each_length(tmp_path) -> None:
    result = studied(tmp_path, diverged="waves")
    recorded = of_result(result)
    scores = length_scores(result.named["waves"])
    (waves,) = (row for row in recorded.rows if row.name == "waves")
    assert {length: scored.seeds for length, scored in waves.lengths.items()} == scores
    assert [waves.lengths[length].mean for length in (2, 4)] == [fmean(scores[length].values()) for length in (2, 4)]
    assert waves.lengths[6].interval == result.named["waves"].validation.interval
    assert Record.read_text(recorded.model_dump_json()) == recorded
    (told,) = (text for text in paragraphs(recorded) if "waves" in text and "2 epochs" in text)
    assert "; in validation after 2 epochs 0.6" in told


def test_what_no_longer_rises_and_one_leader_are_not_said(tmp_path) -> None:
    flat = studied(tmp_path, {"table": (0.6, 0.7, 0.7), "waves": (0.8, 0.9, 0.9), "sines": (0.7, 0.8, 0.8)})
    assert headline(flat).startswith("Trained 6 epochs, take “waves”")
    assert not any("Ahead" in line for line in details(flat))


def test_arms_are_compared_at_the_lengths_over_the_seeds_that_all_have(tmp_path) -> None:
    """Sines left the race after three seeds; an arm without any is left out."""
    fewer = studied(tmp_path / "a", got={"sines": 3})
    assert fewer.lengths is not None
    assert fewer.lengths.gain.n == 3
    assert studied(tmp_path / "b", got={"sines": 0}).lengths.gain.n == SEEDS


def test_lines_that_all_lie_at_chance_have_names_inside_the_panel() -> None:
    """The mean of such seeds may be 1e-17, and an axis that ends there showed how numbers are rounded."""
    lines = [Line({1: [0.0, 0.0], 2: [0.0, 1e-17]}, Look("#000000"), name) for name in ARMS]
    _, axes = panel_of_lines(lines, 0.0)
    low, high = axes.get_ylim()
    assert high - low > 0.01
    assert [low < text.xy[1] < high for text in axes.texts] == [True] * (len(ARMS) + 1)
