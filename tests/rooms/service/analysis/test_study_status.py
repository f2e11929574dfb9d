"""Trials as rows, the status of studies, and the lines of progress: three views of one history."""

import io
import random
import re
from pathlib import Path

from rich.console import Console

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study
from service.analysis.study_status import all_status, one_status
from service.storage.home import Home
from service.storage.journal import read
from service.terminal.live import Progress
from tests.rooms.toy import Toy, conduct, driving
from tests.rooms.trainables.data.own_data import reading_arms
from trainables.encodings import Fourier
from trainables.recipe import Recipe

BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 6})


def search(trials: int = 7, seeds: int = 2) -> Edition:
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plan = Search(space=space, first=({"encoding.gamma": 2.5},), trials=trials, stop=Halving())
    return Study(name="reach", question="How far?", base=BASE, plan=plan, seeds=seeds).at()


def arms() -> Edition:
    plan = Ablation(arms={"near": {"encoding.gamma": 1.0}, "none": {"encoding.kind": "none"}}, baseline="near")
    return Study(name="arms", question="Which?", base=BASE, plan=plan, seeds=2).at()


def test_rows_of_a_search_and_of_an_ablation(two_studies: Home) -> None:
    found = {row.label: row for row in one_status(two_studies, "reach@base").rows}
    assert len(found) == 13
    states = {label: (row.state, row.done, row.asked) for label, row in found.items()}
    assert states["9"] == ("done", 3, 3)
    assert states["1"] == ("stopped at epoch 3 (cut-off 0.8500)", 1, 3)
    assert states["6"] == ("failed: the worker died (exit code 137)", 2, 3)
    assert states["2"][0].startswith("diverged at")
    assert (found["9"].epoch, found["1"].score) == (8, f"{found['1'].mean:.4f}")
    highest = max(("0", "3", "9"), key=lambda label: found[label].mean)
    assert {row.label: row.mark for row in found.values() if row.best} == {f"c{highest}": "best"}, (
        "its own seeds choose"
    )
    best = found[f"c{highest}"]
    assert best.score == f"{best.mean:.4f} +- {best.std:.4f}"

    arms = {row.name: row for row in one_status(two_studies, "encodings@base").rows}
    assert (arms["learnable"].state, arms["learnable"].done) == ("done, 1 of 5 diverged", 5)
    assert arms["relative bias"].state.startswith("failed: CUDA error")
    assert arms["fourier"].values == {"encoding.kind": "fourier"}


def test_a_finished_study_is_done_and_counts_only_what_was_wanted(home: Home) -> None:
    """Also a search in which all diverged."""
    conduct(home, search())
    found = one_status(home, "reach@base")
    assert (found.state, found.running, found.done, found.trials) == ("done", 0, found.asked, "7/7")
    plain = found.plain()
    assert (plain["rows"][0]["label"], plain["trials_ended"], plain["trials_asked"]) == ("0", 7, 7)
    assert plain["best"] == [row["label"] for row in plain["rows"] if row["best"]]
    assert found.best.startswith(f"#c{plain['best'][0][1:]} ")
    space = Space({"encoding.gamma": Real(low=26, high=40)})
    study = Study(name="cliff", question="?", base=BASE, plan=Search(space=space, trials=3), seeds=2)
    conduct(home, study.at())
    found = one_status(home, "cliff@base")
    assert (found.state, found.done, found.asked, found.best) == ("done", 3, 3, "")
    assert {status.id for status in all_status(home)} == {"reach@base", "cliff@base"}


def test_a_study_that_lacks_what_failed_has_failed_and_a_cut_one_is_unfinished(home: Home, tmp_path: Path) -> None:
    edition, other = arms(), Home(tmp_path / "cut")
    bad = edition.arms()[0].runs(2)[1].key
    conduct(home, edition, fails=lambda task, epoch: task.run.key == bad)
    found = one_status(home, edition.id)
    assert (found.state, found.done, found.asked) == ("failed", 3, 4)
    conduct(home, edition)
    assert one_status(home, edition.id).state == "done"
    conduct(other, edition, cut=4)
    found = one_status(other, "arms@base")
    assert (found.state, found.running, found.rows[0].epoch) == ("unfinished", 0, 4)
    assert [row.state for row in found.rows] == ["interrupted", "unfinished"]


def test_a_study_at_work_is_running(home: Home) -> None:
    with driving(home, arms()) as driver:
        toy = Toy(driver, random.Random(0))
        for _ in range(3):
            toy._fill()
            toy._advance(next(iter(toy.workers)))
        assert home.study("arms@base").driven
        found = one_status(home, "arms@base")
        assert (found.state, found.running, found.done, found.asked) == ("running", 1, 0, 4)
        assert [row.state for row in found.rows] == ["running", "waiting"]
        assert found.rows[0].score == f"{driver.history.state(toy.order[0]).value('val/accuracy'):.4f}"
    assert not home.study("arms@base").driven


def spoken(edition: Edition, home: Home, terminal: bool = False, **toy) -> str:
    out = io.StringIO()
    console = Console(file=out, force_terminal=terminal, width=120, highlight=False)
    progress = Progress(edition, console, "usual" if terminal else "all")
    with driving(home, edition) as driver:
        driver.listeners.append(progress.add)
        progress.begin(driver.history, driver.lock)
        Toy(driver, random.Random(0), **toy).drive()
        progress.end()
    return out.getvalue()


def test_piped_it_is_one_line_an_event(home: Home) -> None:
    lines = spoken(arms(), home).splitlines()
    assert "\x1b" not in "".join(lines)
    measured = [line for line in lines if "epoch" in line]
    assert len(measured) == 24
    assert measured[0].endswith(tuple("0123456789"))
    assert "#0 seed 0 epoch 1/6 val/accuracy 0." in measured[0]
    assert [re.sub(r"\d\d:\d\d", "M:S", line.partition("completed  ")[2]) for line in lines if "completed" in line] == [
        "(1 of 4 runs, time left unknown)",
        "(2 of 4 runs, about M:S left)",
        "(3 of 4 runs, about M:S left)",
        "(4 of 4 runs)",
    ]
    ended = [line.split("  ")[1] for line in lines if "completed" in line]
    assert ended == [f"#{arm} seed {seed} completed" for seed in (0, 1) for arm in (0, 1)]


def test_every_kind_of_event_has_a_line(home: Home) -> None:
    edition = search(9)
    bad = edition.trial(0, {"encoding.gamma": 2.5}).runs(2)[1].key
    text = spoken(edition, home, fails=lambda task, epoch: task.run.key == bad and epoch == 2 and task.attempt == 1)
    for words in (" planned", " stopped at ", " (cut-off ", " failed: the worker died", ", attempt 2", "confirming #"):
        assert words in text


def test_in_a_terminal_it_is_a_table_that_ends_complete(home: Home) -> None:
    text = spoken(search(5), home, terminal=True)
    last = text[text.rindex("reach@base") :]
    done = len({fact.run for fact in read(home.study("reach@base").journal)[0] if hasattr(fact, "outcome")})
    stopped = sum(fact.fact == "stopped" for fact in read(home.study("reach@base").journal)[0])
    assert f"{done + stopped} of {done + stopped} runs" in last
    assert "best" in last


def test_a_status_that_was_kept_is_told_until_the_study_changes(home: Home) -> None:
    """It is read anew while a driver runs it, and after a further line; what cannot be read is not kept."""
    for edition in (arms(), search()):
        conduct(home, edition, cut=3)
    first = all_status(home)
    assert [*all_status(home)] == [one_status(home, status.id) for status in first] == [*first]
    with driving(home, arms()):
        assert one_status(home, "arms@base").state == "running"
    conduct(home, arms())
    assert {status.id: status.state for status in all_status(home)} == {"arms@base": "done", "reach@base": "unfinished"}
    (home.study("arms@base").journal).write_text("no fact\n")
    for _ in range(2):
        assert [status.state for status in all_status(home) if status.id == "arms@base"] == ["unreadable"]


def test_answers_of_other_images_do_not_count(home: Home, tmp_path: Path) -> None:
    """The files of a user's own class are none of the study's files, and decide which answers count."""
    edition = reading_arms(tmp_path / "images")
    conduct(home, edition)
    for images, state, done in (("1", "done", 2), ("2", "unfinished", 0), ("1", "done", 2)):
        (tmp_path / "images").write_text(images)
        found = one_status(home, edition.id)
        assert (found.state, found.done, found.asked) == (state, done, 2)
