"""Pages, figures, tables and MLflow say what the journal has: in studies with parts that are rare."""

from types import SimpleNamespace

import numpy as np
import pytest

from search_spaces import library
from search_spaces.study import Ablation, Study
from search_spaces.words import configuration
from service.analysis.best import find_best
from service.analysis.headline import details, headline
from service.analysis.trial_result import summarize
from service.reporting.figures.curves import curve_lines
from service.reporting.figures.rows import to_baseline
from service.reporting.further_tables import shared, varied
from service.reporting.latex import paper_table
from service.reporting.provenance import effort
from service.reporting.results_table import measured
from service.results import Result
from service.storage.facts import Ended, Measured, Planned, Started
from service.storage.history import History
from service.storage.home import Home
from service.tracking.rows import NO_CONCLUSION, means, seed_curve, study_note
from tests.rooms.by_hand import EPOCHS, ByHand, base, with_parent
from trainables.recipe.outcome import Measurement
from trainables.recipe.revisions import code_of

TWO = {"none": {"encoding.kind": "none"}, "peg": {"encoding.kind": "peg"}}
STEADY = [0.90 + 0.001 * (seed % 3) for seed in range(12)]
FAILING = [0.98 + 0.001 * (seed % 4) if seed < 5 else 0.5 for seed in range(12)]


def written(root, arms, scores, *, race=False, seeds=3, base_=None, hand_=ByHand, **given) -> Result:
    """Arms with a validation and a test score for each seed; None: it fails, "diverged": it diverges."""
    plan = Ablation(arms, next(iter(arms)), race=race)
    edition = Study(name="pair", question="?", base=base_ or base(), plan=plan, seeds=seeds, **given).at()
    with hand_(root, edition) as hand:
        for trial, seed in hand.runs(arms, seeds):
            score = scores[trial.name][seed]
            if score is None:
                hand.fail(trial, seed, "the worker died")
            elif score == "diverged":
                hand.diverge(trial, seed, 4)
            else:
                hand.complete(trial, seed, score, score)
    return Result.open(Home(root), edition.id)


@pytest.mark.parametrize("name", ["rope-vit", "drloc", "distillation"])
def test_what_all_trials_share_is_what_each_of_them_has(tmp_path, name):
    study = library.find(name)
    edition = study.at()
    with ByHand(tmp_path, edition, seeds=1):
        pass
    result = Result.open(Home(tmp_path), edition.id)
    *_, table = shared(result)
    told = dict(table.rows)
    for arm, values in edition.study.plan.arms.items():
        has = {setting.path: setting.value for setting in configuration(edition.study.recipe(values))}
        assert told.items() <= has.items(), (
            arm,
            {path: (value, has.get(path)) for path, value in told.items() if has.get(path) != value},
        )


def test_an_arm_of_another_kind_is_not_said_to_have_the_bases_value(tmp_path):
    arms = {"none": {"encoding.kind": "none"}, "fourier": {"encoding.kind": "fourier"}}
    result = written(
        tmp_path, arms, {"none": [0.5], "fourier": [0.9]}, seeds=1, base_=base().put({"encoding.gamma": 7.0})
    )
    assert result.of("trial")[1].recipe.encoding.gamma == 2.5
    assert "encoding.gamma = 7" not in varied(result).note
    assert "One score, of 1 seed." in (text := result.latex())
    assert "deviation" not in text


class Together(ByHand):
    """Runs that trained as one, four of them."""

    def curve(self, trial, seed, final, epochs=EPOCHS):
        alone = super().curve(trial, seed, final, epochs)
        return [Measurement(epoch=one.epoch, values=one.values | {"time/runs": 4.0}) for one in alone]


def test_mlflow_has_the_time_of_a_run_of_a_pack_that_the_report_has(tmp_path):
    arms = {"a": {"encoding.gamma": 1.0}, "b": {"encoding.gamma": 2.0}}
    result = written(tmp_path, arms, {"a": [0.9, 0.9], "b": [0.9, 0.9]}, seeds=2, hand_=Together)
    history, row = result.history, result.of("trial")[0]
    state = history.state(row.runs[0].run)
    assert seed_curve(state)[-1].values["time/train_s"] == pytest.approx(row.runs[0].seconds)
    assert means(history, row.trial)["time/train_s"] == pytest.approx(row.seconds)


def test_that_nothing_was_learned_is_said_only_if_no_seed_learns(tmp_path):
    result = written(tmp_path, TWO, {"none": [0.5] * 5, "peg": [0.99, 0.98, 0.99, 0.99, None]}, seeds=5)
    assert "No trial is above chance" not in headline(result)


def test_an_arm_that_fails_more_often_is_not_called_significantly_higher(tmp_path):
    result = written(tmp_path, TWO, {"none": STEADY, "peg": FAILING}, seeds=12)
    gap = result.differences["peg"]
    assert not gap.significant, "its seeds that train are higher, all of its seeds are lower"
    assert gap.mean < 0
    (pair,) = to_baseline(result)
    assert (pair.mean, pair.interval) == (gap.mean, gap.interval)
    assert [*paper_table(result, measured(result)).columns[1].cells] == ["12 (0, up to 22 %)", "12 (7, up to 82 %)"]


def test_the_first_start_is_that_of_the_first_attempt():
    edition = Study(name="slow", question="?", base=base(), plan=Ablation({"a": {}}, "a"), seeds=1).at()
    run = edition.arms()[0].run(0)
    known, day = {"run": run.key, "code": code_of(run.recipe).digest}, 86_400.0
    facts = [
        Planned(role="trial", number=0, name="a", values={}, time=1.0),
        Started(**known, attempt=1, seed=0, label="0", time=10.0),
        Measured(**known, epoch=1, values={"val/accuracy": 0.6}, time=610.0),  # then the power fails
        Started(**known, attempt=2, seed=0, label="0", time=day),
        Measured(**known, epoch=2, values={"val/accuracy": 0.7}, time=day + 600),
        Ended(**known, outcome="completed", epoch=2, time=day + 600),
    ]
    history = History(edition, facts)
    result = SimpleNamespace(history=history, rows=[])
    assert effort(result).endswith("; 24 h 09 min from the first start to the last result.")


def test_a_score_of_a_parent_has_its_own_metric(tmp_path):
    child = {
        "init": {
            "kind": "from_trial",
            "values": {"data": {"kind": "red_green", "task": "distance"}},
            "part": "encoding",
        }
    }
    result = Result.open(Home(tmp_path), with_parent(tmp_path, child, "fourier on distance"))
    parent_row = next(row for row in summarize(result.history, alive=False) if row.label == "p1")
    assert "r2" in parent_row.score
    assert "R²" in next(
        line
        for line in study_note(result.history, find_best(result.history), NO_CONCLUSION).splitlines()
        if "p1" in line
    )


def test_memory_of_a_pack_is_not_that_of_a_run(tmp_path):

    class Heavy(Together):
        def curve(self, trial, seed, final, epochs=EPOCHS):
            more = {"memory/peak_gib": 12.0, "train/images_per_s": 100.0}
            return [
                Measurement(epoch=one.epoch, values=one.values | more)
                for one in super().curve(trial, seed, final, epochs)
            ]

    arms = {"a": {"encoding.gamma": 1.0}, "b": {"encoding.gamma": 2.0}}
    edition = Study(name="pair", question="?", base=base(), plan=Ablation(arms, "a", race=True), seeds=3).at()
    with Heavy(tmp_path, edition) as hand:
        for trial, seed in hand.runs(arms, 3):
            score = 0.8 + 0.1 * trial.number + 0.002 * seed
            hand.complete(trial, seed, score, score, fused=4)
    result = Result.open(Home(tmp_path), edition.id)
    assert not any("12.00 GiB" in line for line in details(result))


def test_the_curve_of_an_arm_that_diverged_ends_where_its_score_is(tmp_path):

    class Late(ByHand):
        def diverge(self, trial, seed, epoch):
            self.curve_of = 0.95
            super().diverge(trial, seed, epoch)

        def curve(self, trial, seed, final, epochs=EPOCHS):
            return super().curve(trial, seed, 0.95 if final == 0.6 else final, epochs)

    result = written(tmp_path, TWO, {"none": [0.8, 0.81, 0.82], "peg": ["diverged"] * 3}, hand_=Late)
    (line,) = [line for line in curve_lines(result) if line.name == "peg"]
    (row,) = [row for row in result.of("trial") if row.name == "peg"]
    assert np.mean([*line.values.values()][-1]) == row.validation.mean == 0.5


def test_who_fails_more_often_is_not_recommended_without_a_word(tmp_path):
    arms = TWO | {"low": {"encoding.kind": "sinusoidal"}}
    low = [0.80 + 0.001 * (seed % 3) for seed in range(12)]
    result = written(tmp_path, arms, {"none": STEADY, "peg": FAILING, "low": low}, seeds=12, race=True)
    assert result.headline.startswith("Take “none”")
    assert "5 of 12 seeds at 0.98, 7 failed (0.50)" in measured(result).note
