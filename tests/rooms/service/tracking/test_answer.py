"""MLflow tells the answer from the points of a search: by role, by rank, and by the study's own run."""

from __future__ import annotations

from pathlib import Path

from mlflow.tracking import MlflowClient

from service.analysis.best import ranked
from service.storage.facts import Confirms
from service.storage.history import History
from service.storage.home import Home
from service.tracking import sync
from service.tracking.rows import Conclusion, rank_tag, title
from service.tracking.sync import MlflowSync
from tests.rooms.service.tracking.facts import Facts, runs, search, show, told
from tests.waiting import until


def confirmed(until: int = 2) -> Facts:
    """Two points of two seeds; the second is higher, and `until` of both confirmations are complete."""
    facts = Facts(search())
    low, high = (facts.plan(number, encoding__gamma=gamma) for number, gamma in enumerate((2.5, 31.0)))
    for trial, final in ((low, 0.75), (high, 1.0)):
        for seed in range(2):
            facts.complete(trial, seed, final)
    facts.add(Confirms(numbers=(1, 0)))
    again = [facts.plan(n, "confirmation", encoding__gamma=gamma) for n, gamma in ((1, 31.0), (0, 2.5))]
    for trial, final in list(zip(again, (0.8125, 0.875), strict=True))[:until]:
        for seed in trial.seeds(2):
            facts.complete(trial, seed, final)
    return facts


def test_confirmed_answers_are_told_from_points_and_come_first(home: Home) -> None:
    show(home, confirmed())
    shown = {name: run for name, run in runs(home).items() if run.data.tags["locus.level"] == "trial"}
    points_, again = {"#00 gamma=2.5": "point", "#01 gamma=31": "point"}, ("c0 gamma=2.5", "c1 gamma=31")
    assert {name: run.data.params["role"] for name, run in shown.items()} == points_ | dict.fromkeys(
        again, "confirmation"
    )
    ranked = sorted(shown, key=lambda name: shown[name].data.tags["locus.rank"])
    assert ranked == ["c1 gamma=31", "c0 gamma=2.5", "#01 gamma=31", "#00 gamma=2.5"]
    assert [name for name, run in shown.items() if run.data.tags.get("locus.best")] == ["c1 gamma=31"]


def test_the_order_of_trials_is_that_of_the_analysis_also_below_zero(home: Home) -> None:
    facts = confirmed()
    for number, final in enumerate((0.984375, -0.5, 0.5, -120.0, 0.9921875), start=2):
        trial = facts.plan(number, encoding__gamma=number + 0.5)
        for seed in range(2):
            facts.complete(trial, seed, final)
    facts.start(facts.plan(9, encoding__gamma=9.0), 0)
    history = History(facts.edition, lambda recipe: facts.code, facts.facts)
    by_tag = sorted(history.trials, key=lambda trial: rank_tag(history, trial))
    assert [trial.label for trial in by_tag] == [trial.label for trial in ranked(history)]


def marked(home: Home) -> list[str]:
    """The trials that MLflow marks as the best."""
    rows = [run for run in runs(home).values() if run.data.tags["locus.level"] == "trial"]
    return [run.info.run_name for run in rows if run.data.tags.get("locus.best")]


def test_the_mark_of_the_best_moves_while_the_study_runs(home: Home, monkeypatch) -> None:
    monkeypatch.setattr(sync, "PAUSE_S", 0.0)
    facts = Facts(search())
    mlflow = MlflowSync(facts.edition, home, lambda recipe: facts.code)
    mlflow.open()
    sent = 0
    for number, (gamma, final) in enumerate(((2.5, 0.75), (31.0, 1.0))):
        trial = facts.plan(number, encoding__gamma=gamma)
        for seed in range(2):
            facts.complete(trial, seed, final)
        for fact in facts.facts[sent:]:
            mlflow.add(fact)
        sent = len(facts.facts)
        wanted = [title(facts.edition, trial)]
        until(lambda wanted=wanted: marked(home) == wanted)
    assert mlflow.close("SCHEDULED") is None


def test_test_scores_are_those_of_the_answer(home: Home) -> None:
    show(home, confirmed())
    shown = runs(home)
    assert "test/accuracy_mean" not in shown["#01 gamma=31"].data.metrics
    assert shown["c0 gamma=2.5"].data.metrics["test/accuracy_mean"] == 0.75
    assert shown["reach@base"].data.metrics["best/test/accuracy_mean"] == 0.6875


def test_the_study_counts_finished_runs_and_shows_the_best(home: Home) -> None:
    show(home, confirmed())
    study = runs(home)["reach@base"]
    assert study.data.metrics["best/val/accuracy_mean"] == 0.8125
    for name, value in {"progress/runs": 8, "progress/asked": 8 + 2 * 2 + 4 * 2}.items():
        assert study.data.metrics[name] == value, (
            "as the plan: two of four points are still to come, and at most four to confirm, with two seeds each"
        )
    assert study.data.tags["locus.best"] == "c1 gamma=31"


def test_while_it_is_confirmed_the_best_is_a_point(home: Home) -> None:
    show(home, confirmed(until=1), "SCHEDULED")
    assert runs(home)["reach@base"].data.tags["locus.best"] == "#01 gamma=31"
    assert "best/test/accuracy_mean" not in runs(home)["reach@base"].data.metrics


def test_the_study_says_its_answer_and_its_verdicts(home: Home, tmp_path: Path) -> None:
    facts = confirmed()
    said = Conclusion("#0 comes out best.", ("NOT JUDGED at smoke: “best” reaches at least 0.99.",))
    assert told(home, facts).close("FINISHED", None, said) is None
    tags = MlflowClient(home.tracking).get_run(runs(home)["reach@base"].info.run_id).data.tags
    assert tags["locus.headline"] == "#0 comes out best."
    assert tags["locus.claims"] == "NOT JUDGED at smoke: “best” reaches at least 0.99."
    note = tags["mlflow.note.content"]
    assert "**How far?**\n\n#0 comes out best.\n\n- NOT JUDGED at smoke" in note
    lines = [line for line in note.splitlines() if line.startswith("| ")]
    assert lines[0] == "| trial | role | validation accuracy | test accuracy | training |  |"
    assert lines[1] == "| c1 gamma=31 | confirmation | 0.8125 ± 0.0000 (n 2) | 0.6875 ± 0.0000 (n 2) |  | best |"
    assert lines[3] == "| #01 gamma=31 | point | 1.0000 ± 0.0000 (n 2) |  |  | completed |"
    assert len(lines) == 5
