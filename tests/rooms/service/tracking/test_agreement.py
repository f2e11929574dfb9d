"""What MLflow shows is compared with the journal: damage is told from what a killed driver left unsent."""

from __future__ import annotations

import json
import math
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest
from mlflow.tracking import MlflowClient

from service.storage.facts import Counts, FailedWith
from service.storage.history import History
from service.storage.home import Home
from service.storage.report_files import content_digest
from service.tracking.agreement import compare_with_mlflow
from service.tracking.store import look_up
from service.tracking.sync import MlflowSync
from tests.rooms.service.tracking.facts import Facts, points, runs, show
from trainables.recipe import Recipe

RUN = "(SELECT run_uuid FROM runs WHERE name = '#00 seed 1')"
TRIAL = "(SELECT run_uuid FROM runs WHERE name = '#00 gamma=2.5')"
METRIC = (
    "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid) "
    "SELECT {}, 0.999, 1800000000000, 1000000, 0, run_uuid FROM runs WHERE name = {}"
)
DAMAGE = {
    "a point in the middle": (
        f"UPDATE metrics SET value = 0.3 WHERE run_uuid = {RUN} AND key = 'val/accuracy' AND step = 2",
        "MLflow numbers", "#00 seed 1: val/accuracy",
    ),
    "the last point of a curve": (
        f"UPDATE metrics SET value = 0.3 WHERE run_uuid = {RUN} AND key = 'val/accuracy' AND step = 3",
        "MLflow numbers", "#00 seed 1: val/accuracy",
    ),
    "the last value": (
        f"UPDATE latest_metrics SET value = 0.3 WHERE run_uuid = {RUN} AND key = 'val/accuracy'",
        "MLflow numbers", "#00 seed 1: val/accuracy",
    ),
    "a point that is gone": (
        f"DELETE FROM metrics WHERE run_uuid = {RUN} AND key = 'train/loss' AND step = 1",
        "MLflow numbers", "#00 seed 1: train/loss",
    ),
    "a point of a mean curve": (
        f"UPDATE metrics SET value = 0.3 WHERE run_uuid = {TRIAL} AND key = 'val/accuracy_mean' AND step = 1",
        "MLflow numbers", "#00 gamma=2.5: val/accuracy_mean",
    ),
    "a point that is no number": (
        f"UPDATE metrics SET value = 'one' WHERE run_uuid = {RUN} AND key = 'test/accuracy'",
        "MLflow numbers", "#00 seed 1: test/accuracy",
    ),
    "a step that is no number": (
        f"UPDATE metrics SET step = 'two' WHERE run_uuid = {RUN} AND key = 'train/loss' AND step = 2",
        "MLflow numbers", "#00 seed 1: train/loss",
    ),
    "a param": (
        f"UPDATE params SET value = '9' WHERE run_uuid = {RUN} AND key = 'encoding.gamma'",
        "MLflow params", "#00 seed 1: encoding.gamma",
    ),
    "a param that is gone": (
        f"DELETE FROM params WHERE run_uuid = {RUN} AND key = 'seed'", "MLflow params", "#00 seed 1: seed",
    ),
    "a tag": (
        f"UPDATE tags SET value = '1.0' WHERE run_uuid = {TRIAL} AND key = 'locus.score'",
        "MLflow tags", "#00 gamma=2.5: locus.score",
    ),
    "a name": (
        f"UPDATE tags SET value = 'x' WHERE run_uuid = {RUN} AND key = 'mlflow.runName'",
        "MLflow tags", "x: mlflow.runName",
    ),
    "a parent": (
        f"UPDATE tags SET value = 'x' WHERE run_uuid = {RUN} AND key = 'mlflow.parentRunId'",
        "MLflow tags", "#00 seed 1: mlflow.parentRunId",
    ),
    "a status": (
        f"UPDATE runs SET status = 'FAILED' WHERE run_uuid = {RUN}", "MLflow states", "is FAILED, not FINISHED",
    ),
    "a tag that is no number": (
        f"UPDATE tags SET value = 'one' WHERE run_uuid = {RUN} AND key = 'locus.seed'",
        "MLflow copies", "#00 seed 1 has tags that locus does not write",
    ),
    "a level that is gone": (
        f"DELETE FROM tags WHERE run_uuid = {RUN} AND key = 'locus.level'",
        "MLflow copies", "#00 seed 1 has tags that locus does not write",
    ),
    "a mark of the best": (
        "INSERT INTO tags SELECT 'locus.best', 'best', run_uuid FROM runs WHERE name = '#01 gamma=31'",
        "MLflow tags", "#01 gamma=31: locus.best",
    ),
    "a sign that a run was reused": (
        f"INSERT INTO tags (key, value, run_uuid) VALUES ('locus.reused', 'true', {RUN})",
        "MLflow tags", "#00 seed 1: locus.reused",
    ),
    "a reason why a run ended": (
        f"INSERT INTO tags (key, value, run_uuid) VALUES ('locus.reason', 'diverged after epoch 1', {RUN})",
        "MLflow tags", "#00 seed 1: locus.reason",
    ),
    "a test score of a point": (
        METRIC.format("'test/accuracy_mean'", "'#00 gamma=2.5'"), "MLflow numbers", "#00 gamma=2.5: test/accuracy_mean",
    ),
    "a metric of a run": (METRIC.format("'val/skill'", "'#00 seed 1'"), "MLflow numbers", "#00 seed 1: val/skill"),
    "a metric of the best": (
        METRIC.format("'best/test/accuracy_mean'", "'reach@base'"),
        "MLflow numbers", "reach@base: best/test/accuracy_mean",
    ),
    "files elsewhere": (
        f"UPDATE runs SET artifact_uri = 'file:///elsewhere/artifacts' WHERE run_uuid = {RUN}",
        "MLflow files", "#00 seed 1 has its files at file:///elsewhere/artifacts",
    ),
}  # fmt: skip


def change(home: Home, statement: str) -> None:
    with closing(sqlite3.connect(home.database)) as base, base:
        assert base.execute(statement).rowcount > 0


def compared(home: Home, facts: Facts, code: str = "") -> dict[str, tuple[bool, str]]:
    """`code`: today's; none: that by which the facts were written last."""
    history = History(facts.edition, lambda recipe: code or facts.code, facts.facts)
    found = compare_with_mlflow(look_up(home, facts.edition), [history], home, alive=False)
    return {check.name: (check.ok, check.detail) for check in found}


def test_every_change_is_named_and_the_next_run_puts_numbers_back(home: Home, small: Facts, tmp_path) -> None:
    show(home, small)
    sound = compared(home, small)
    assert all(ok for ok, _ in sound.values()), sound
    assert not any("behind" in detail for _, detail in sound.values())
    assert "descriptions and headlines are not compared" in sound["MLflow tags"][1]
    whole = tmp_path / "whole.db"
    shutil.copy(home.database, whole)
    for what, (statement, name, detail) in DAMAGE.items():
        with closing(sqlite3.connect(whole)) as kept, closing(sqlite3.connect(home.database)) as base:
            kept.backup(base)
        change(home, statement)
        ok, said = compared(home, small)[name]
        assert not ok, what
        assert detail in said, what
    with closing(sqlite3.connect(whole)) as kept, closing(sqlite3.connect(home.database)) as base:
        kept.backup(base)
    for statement, name, _ in DAMAGE.values():
        if name in ("MLflow numbers", "MLflow params"):
            change(home, statement)
    show(home, small)
    mended = compared(home, small)
    assert all(ok and "behind" not in detail for ok, detail in mended.values()), mended


@pytest.mark.parametrize("lost", ["", "recipes.json", "report/report.html", "report/files.json", "report/curves.svg"])
def test_files_that_are_lost_are_named_and_the_next_run_sends_them(home: Home, small: Facts, lost: str) -> None:
    report = home.study(small.edition.id).report
    report.mkdir(parents=True)
    for name in ("report.html", "curves.svg"):
        (report / name).write_text(name)
    (report / "files.json").write_text(
        json.dumps({name: content_digest(name) for name in ("curves.svg", "report.html")})
    )
    show(home, small, report=report)
    (kept,) = home.artifacts.glob("*/artifacts")
    assert compared(home, small)["MLflow files"] == (True, "9 MLflow runs, with their files in the home")
    (shutil.rmtree if not lost else Path.unlink)(kept / lost)
    ok, said = compared(home, small)["MLflow files"]
    assert (ok, "locus run reach@base sends what is lost again" in said) == (False, True)
    assert (lost or "report/report.html") in said
    show(home, small, report=report)
    assert (kept / lost).exists()
    assert compared(home, small)["MLflow files"][0]
    for name in ("report.html", "curves.svg"):
        (kept / "report" / name).write_text("another is best")
    ok, said = compared(home, small)["MLflow files"]
    assert (ok, "report/curves.svg as it was sent; report/report.html as it was sent" in said) == (False, True)
    show(home, small, report=report)
    assert compared(home, small)["MLflow files"][0]


@pytest.mark.parametrize("content", ["{}", ""])
def test_changed_recipes_are_named_and_the_next_run_sends_them(home: Home, small: Facts, content: str) -> None:
    show(home, small)
    (file,) = home.artifacts.glob("*/artifacts/recipes.json")
    whole = file.read_text()
    file.write_text(content)
    ok, said = compared(home, small)["MLflow files"]
    assert (ok, "reach@base lacks recipes.json as it was sent" in said) == (False, True)
    show(home, small)
    assert file.read_text() == whole
    assert compared(home, small)["MLflow files"][0]


def test_what_a_killed_driver_left_is_behind_and_damage_beside_it_is_wrong(home: Home, small: Facts) -> None:
    whole = small.facts
    cut = next(at for at, fact in enumerate(whole) if fact.fact == "measured" and fact.epoch == 2)
    show(home, Facts(small.edition, whole[:cut], code=small.code), "KILLED")
    change(home, "UPDATE runs SET status = 'RUNNING', end_time = NULL")  # as kill -9 leaves them
    found = compared(home, small)
    assert all(ok for ok, _ in found.values()), found
    for name in ("MLflow runs", "MLflow states", "MLflow numbers", "MLflow tags"):
        assert found[name][1].startswith("behind: "), name
        assert found[name][1].endswith("the next run sends it"), name
    change(home, "UPDATE metrics SET value = 0.3 WHERE key = 'train/loss' AND step = 1")
    change(home, "UPDATE latest_metrics SET value = 0.3 WHERE key = 'train/loss'")
    assert compared(home, small)["MLflow numbers"] == (False, "#00 seed 0: train/loss")
    change(home, "UPDATE metrics SET value = 0.75 WHERE key = 'train/loss' AND step = 1")
    change(home, "UPDATE latest_metrics SET value = 0.75 WHERE key = 'train/loss'")
    show(home, small)
    found = compared(home, small)
    assert all(ok and "behind" not in detail for ok, detail in found.values()), found


def wrong(home: Home, facts: Facts, code: str = "") -> dict[str, str]:
    return {name: said for name, (ok, said) in compared(home, facts, code).items() if not ok}


def again(facts: Facts, code: str, numbers: int, final: float) -> None:
    """The code is edited, and the first trials are trained again."""
    facts.code = code
    for number, gamma in enumerate((2.5, 31.0, 1.5)[:numbers]):
        for seed in range(2):
            facts.complete(facts.edition.trial(number, {"encoding.gamma": gamma}), seed, final)


def test_a_best_that_is_no_more_leaves_no_numbers(home: Home, small: Facts) -> None:
    show(home, small)
    again(small, "aaaaaaaaaaaa", 3, 0.5)
    show(home, small)
    study = runs(home)["reach@base"]
    assert "locus.best" not in study.data.tags, "no trial is above chance"
    best = {name: value for name, value in study.data.metrics.items() if name.startswith("best/")}
    assert best
    assert all(map(math.isnan, best.values())), "MLflow deletes no metric"
    assert wrong(home, small) == {}
    told = points(home, study, "best/val/accuracy_mean")
    show(home, small)
    assert len(points(home, study, "best/val/accuracy_mean")) == len(told) == 2, "once"
    again(small, "bbbbbbbbbbbb", 3, 1.0)
    show(home, small)
    assert runs(home)["reach@base"].data.metrics["best/val/accuracy_mean"] == 1.0
    assert wrong(home, small) == {}


def test_a_mean_of_other_code_leaves_with_it(home: Home, small: Facts) -> None:
    show(home, small)
    small.code = "aaaaaaaaaaaa"
    trial = small.edition.trial(0, {"encoding.gamma": 2.5})
    small.add(FailedWith(**small.start(trial, 0), reason="no memory"))
    show(home, small, "KILLED")
    assert "val/accuracy_mean" not in runs(home)["#00 gamma=2.5"].data.metrics
    assert wrong(home, small) == {}


def test_a_row_of_no_journal_is_named_and_the_next_run_removes_it(home: Home, small: Facts) -> None:
    show(home, small)
    client, trial = MlflowClient(home.tracking), runs(home)["#01 gamma=31"]
    tags = {**trial.data.tags, "locus.number": "77", "mlflow.runName": "#77 gamma=9"}
    made = client.create_run(trial.info.experiment_id, tags=tags).info.run_id
    client.log_metric(made, "val/accuracy_mean", 0.9999, step=3)
    client.set_terminated(made)
    assert wrong(home, small) == {"MLflow runs": "#77 gamma=9 is in no journal"}
    show(home, small)
    assert client.get_run(made).info.lifecycle_stage == "deleted"
    assert wrong(home, small) == {}


def test_what_a_user_adds_is_never_wrong(home: Home, small: Facts) -> None:
    show(home, small)
    client, shown = MlflowClient(home.tracking), runs(home)
    for run in shown.values():
        client.log_metric(run.info.run_id, "mine/score", 0.5, step=1)
        client.set_tag(run.info.run_id, "mine", "looked at")
        client.set_tag(run.info.run_id, "mlflow.note.content", "a note")
        client.log_text(run.info.run_id, "a text", "mine.txt")
    client.log_text(shown["reach@base"].info.run_id, "a text", "report/mine.txt")
    client.create_run(
        shown["reach@base"].info.experiment_id, tags={"mlflow.parentRunId": shown["#00 seed 0"].info.run_id}
    )
    found = compared(home, small)
    assert all(ok and "behind" not in said for ok, said in found.values()), found


@pytest.mark.parametrize("ended", ["FINISHED", "KILLED"])
@pytest.mark.parametrize("trained", [0, 1, 3])
def test_code_that_is_edited_again_or_back_makes_nothing_wrong(
    home: Home, small: Facts, trained: int, ended: str
) -> None:
    first = small.code
    show(home, small)
    again(small, second := "aaaaaaaaaaaa", trained, 0.9375)
    small.add(Counts(seeds=3, trials=4))
    show(home, small, ended)
    for today in (first, second, "bbbbbbbbbbbb"):
        assert wrong(home, small, today) == {}, today
    behind = compared(home, small, first)["MLflow runs"][1]
    assert behind.startswith("behind: nothing shows run 0 seed 0 by today's code" if trained else "1 trials and runs")
    change(home, "UPDATE latest_metrics SET value = 7 WHERE key = 'progress/runs'")
    for today in (first, second, "bbbbbbbbbbbb"):
        assert wrong(home, small, today) == {"MLflow numbers": "reach@base: progress/runs"}, today


def test_codes_of_two_kinds_are_told_apart(home: Home, small: Facts) -> None:
    """Only the code of the first trial was edited, twice or back: the answers of the others count all the time."""
    trial, others = small.edition.trial(0, {"encoding.gamma": 2.5}), small.code
    keys = {trial.run(seed).key for seed in range(2)}
    first = {"code": "111111111111"}
    small.facts = [fact.model_copy(update=first) if getattr(fact, "run", "") in keys else fact for fact in small.facts]
    small.code = "222222222222"
    small.complete(trial, 0, 0.9375)

    def codes(of_first: str) -> Callable[[Recipe], str]:
        return lambda recipe: of_first if recipe == trial.recipe else others

    shown = MlflowSync(small.edition, home, codes("222222222222"))
    shown.open()
    for fact in small.facts:
        shown.add(fact)
    assert shown.close("KILLED") is None
    for today in ("111111111111", "222222222222", "333333333333"):
        history = History(small.edition, codes(today), small.facts)
        found = [*compare_with_mlflow(look_up(home, small.edition), [history], home, alive=False)]
        assert all(check.ok for check in found), (today, found)


def test_a_study_that_is_extended_and_stopped_has_nothing_wrong(home: Home, small: Facts) -> None:
    show(home, small)
    small.add(Counts(seeds=3, trials=4))
    show(home, small, "KILLED")
    assert wrong(home, small) == {}
    small.start(small.edition.trial(0, {"encoding.gamma": 2.5}), 2)
    show(home, small, "KILLED")
    assert wrong(home, small) == {}


def test_a_trial_whose_first_seed_is_not_begun_has_nothing_wrong(home: Home, small: Facts) -> None:
    """Another driver of the home trains that seed, and this study was stopped before it took the answer."""
    small.complete(small.plan(3, encoding__gamma=4.0), 1, 0.75)
    show(home, small, "KILLED")
    assert wrong(home, small) == {}
