"""Room: what Tune's scheduler passes on to the driver, and its searcher asks for."""

import json
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

from service.execution.driver import SAME
from service.execution.tune import DriverSearcher, JournalScheduler
from service.execution.watchdog import Nodes, Watch, jobs_of
from service.planning.placement import Placement
from service.storage.facts import Ended, FailedWith
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import driving, measure, message, write_weights
from tests.rooms.trainables.data.own_data import reading_arms
from trainables.recipe.outcome import Diverged


def reported(home: Home, epochs: list[dict], watch: Watch) -> tuple[list[str], list[str]]:
    """What the scheduler answers to the messages of one run's epochs, and the lines that it prints."""
    lines: list[str] = []
    with driving(home, arms()) as driver:
        job = driver.next()
        scheduler = JournalScheduler(driver, lines.append, watch, Nodes())
        trial = SimpleNamespace(config={"job": job.plain()}, trial_id="one")
        watch.on_trial_start(0, [], trial)
        answers = [
            scheduler.on_trial_result(None, trial, message(measure(job.run, epoch), job) | more)
            for epoch, more in enumerate(epochs, start=1)
        ]
        assert (job.run.key in driver.in_flight) == (answers[-1] == "CONTINUE")
        said = [line.removeprefix(f"run {job.run.key}, attempt 1: ") for line in lines]
        assert driver.folder.log.exists() == bool(lines)
    return answers, said


def test_what_a_worker_notes_is_said_once(home: Home) -> None:
    """It comes with every epoch, because the driver may not have seen the first."""
    epochs = [{"note": ""}, {"note": "in 2 parts"}, {"note": "in 2 parts"}]
    assert reported(home, epochs, Watch(None)) == (["CONTINUE"] * 3, ["in 2 parts"])


def test_a_run_whose_time_is_over_ends_at_its_report_and_is_left_to_the_next_command(home: Home) -> None:
    assert reported(home, [{}], Late(run_hours=1.0))[0] == ["STOP"]
    (failed,) = facts(home, arms(), FailedWith)
    assert failed.final
    assert failed.reason == "it took longer than --run-hours 1; the same command continues it"


class Late(Watch):
    """Two hours pass at the begin of each run."""

    def on_trial_start(self, iteration, trials, trial, **info) -> None:
        super().on_trial_start(iteration, trials, trial)
        self.dog._awake += 7200.0


@contextmanager
def packed(home: Home, fuse: int):
    """A driver whose searcher makes packs, of three arms with two seeds: one has no encoding, two have one."""
    with driving(home, arms()) as driver:
        driver.placement = Placement(max_concurrent=6, fuse=fuse)
        yield driver


@contextmanager
def pair(home: Home):
    """A driver, its searcher, and the pack of two that it suggested second: runs with an encoding."""
    with packed(home, fuse=2) as driver:
        searcher = DriverSearcher(driver, driver.next())
        suggested(searcher, "none")
        yield driver, searcher, suggested(searcher, "pack")


def suggested(searcher: DriverSearcher, name: str) -> SimpleNamespace | None:
    config = searcher.suggest(name)
    return None if config is None else SimpleNamespace(config=config, trial_id=name, error_file="")


def test_a_pack_holds_runs_that_differ_in_seeds_and_numbers(home: Home) -> None:
    with packed(home, fuse=3) as driver:
        searcher = DriverSearcher(driver, driver.next())
        packs = [suggested(searcher, name) for name in ("a", "b")]
        assert suggested(searcher, "c") is None, "six runs in packs of three are two places"
        searcher.on_trial_complete("a")
        packs.append(suggested(searcher, "c"))
        named = [[(job.run.recipe.encoding.kind, job.run.seed) for job in jobs_of(pack)] for pack in packs]
        assert named == [[("none", 0), ("none", 1)], [("fourier", 0), ("fourier", 0), ("fourier", 1)], [("fourier", 1)]]


def test_runs_of_a_pack_end_one_by_one_and_those_that_have_are_not_asked(home: Home) -> None:
    with pair(home) as (driver, _, pack):
        jobs = jobs_of(pack)
        watch = Watch(None)
        watch.on_trial_start(0, [], pack)
        scheduler = JournalScheduler(driver, lambda line: None, watch, Nodes())
        write_weights(Path(jobs[1].folder) / "weights.pt", jobs[1].run.key)
        diverged = Diverged(epoch=1, reason="train/loss not finite")
        epochs = [(diverged, measure(jobs[1].run, 1))]
        epochs += [(None, measure(jobs[1].run, epoch)) for epoch in range(2, 7)]
        for number, outcomes in enumerate(epochs, 1):
            told = [{"run": job.run.key, **message(of, job)} for job, of in zip(jobs, outcomes, strict=True) if of]
            answer = scheduler.on_trial_result(None, pack, {"epoch": number, "runs": json.dumps(told)})
            assert answer == "CONTINUE", "the last message of a pack says that it is done"
            assert jobs[0].run.key not in driver.in_flight
        ended = {fact.run: fact.outcome for fact in facts(home, arms(), Ended)}
        assert ended == {jobs[0].run.key: "diverged", jobs[1].run.key: "completed"}


def test_a_run_that_stops_early_leaves_its_pack(home: Home, monkeypatch) -> None:
    """Its folder goes, which says so to the process that trains the others."""
    with pair(home) as (driver, _, pack):
        first, other = jobs_of(pack)
        monkeypatch.setattr(driver, "_stop_early", lambda key, code, measured: key == first.run.key)
        told = [{"run": job.run.key, **message(measure(job.run, 1), job)} for job in (first, other)]
        scheduler = JournalScheduler(driver, lambda line: None, Watch(None), Nodes())
        assert scheduler.on_trial_result(None, pack, {"epoch": 1, "runs": json.dumps(told)}) == "CONTINUE"
        assert [Path(job.folder).exists() for job in (first, other)] == [False, True]
        assert [job.run.key in driver.in_flight for job in (first, other)] == [False, True]


def test_a_pack_that_fails_is_one_failure_and_its_runs_train_again_one_by_one(home: Home) -> None:
    with pair(home) as (driver, searcher, pack):
        keys = [job.run.key for job in jobs_of(pack)]
        for _ in range(SAME - 1):
            driver.repeated.failed("ValueError: odd", lost=False)
        driver.repeated.progress(answered=True)
        watch = Watch(None)
        watch.killed["pack"] = ("ValueError: odd", True)
        JournalScheduler(driver, lambda line: None, watch, Nodes()).on_trial_error(None, pack)
        searcher.on_trial_complete("none")
        searcher.on_trial_complete("pack", error=True)
        failed = facts(home, arms(), FailedWith)
        assert [(fact.run, fact.final) for fact in failed] == [(key, False) for key in keys]
        assert driver.repeated._count == 1, "not as many as it had runs, of which ten would end the study"
        suggested(searcher, "the other seeds")
        again = [jobs_of(suggested(searcher, name)) for name in ("b", "c")]
        assert [[(job.run.key, job.attempt) for job in jobs] for jobs in again] == [[(key, 2)] for key in keys]


def test_a_stop_releases_all_runs_of_a_pack(home: Home) -> None:
    with pair(home) as (driver, searcher, pack):
        first, other = jobs_of(pack)
        scheduler = JournalScheduler(driver, lambda line: None, Watch(None), Nodes())
        driver.stop.asked = True
        told = [{"run": first.run.key, **message(measure(first.run, 1), first)}]
        assert scheduler.on_trial_result(None, pack, {"epoch": 1, "runs": json.dumps(told)}) == "STOP"
        assert not {first.run.key, other.run.key} & driver.in_flight.keys
        assert searcher.waiting, "other seeds"
        held = {job.run.key for job in searcher.waiting}
        searcher.on_trial_complete("pack")
        assert searcher.suggest("next") == "FINISHED"
        assert not held & driver.in_flight.keys


def test_a_run_whose_images_change_while_it_trains_ends_as_it_was_planned(home: Home, tmp_path: Path) -> None:
    """Its driver would wait for ever for a run that it does not know. The file may even be away for a moment."""
    file = tmp_path / "images"
    edition = reading_arms(file)
    with driving(home, edition) as driver:
        searcher, watch = DriverSearcher(driver), Watch(None)
        scheduler = JournalScheduler(driver, print, watch, Nodes())
        keys = []
        for name in ("first", "second"):
            trial = SimpleNamespace(trial_id=name, config=searcher.suggest(name), error_file=None)
            watch.on_trial_start(0, [], trial)
            (job,) = jobs_of(trial)
            keys.append(job.run.key)
            epochs = [message(measure(job.run, epoch), job) for epoch in (1, 2)]
            write_weights(Path(job.folder) / "weights.pt", job.run.key)
            file.unlink()
            assert scheduler.on_trial_result(None, trial, epochs[0]) == "CONTINUE"
            if name == "first":
                scheduler.on_trial_result(None, trial, epochs[1])
            scheduler.on_trial_complete(None, trial, {})
            file.write_text("2")
        assert not driver.in_flight.jobs
    assert keys == [trial.run(0).key for trial in edition.arms()]
    assert len(Outcomes(home).of(keys[0])) == 1
    (failed,) = facts(home, edition, FailedWith)
    assert (failed.run, failed.reason) == (keys[1], "its process ended without an answer")
