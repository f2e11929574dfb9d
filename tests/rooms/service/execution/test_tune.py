"""What Ray Tune does with a driver's jobs: packs, reports, deaths, silence, and what a run asks of Ray."""

import json
import socket
import threading
from pathlib import Path
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ray._private import services
from ray.air.execution._internal.actor_manager import RayActorManager
from ray.air.execution._internal.tracked_actor import TrackedActor
from ray.air.execution._internal.tracked_actor_task import TrackedActorTask
from ray.exceptions import ActorDiedError, OutOfMemoryError, RayActorError, RayError, RayTaskError

from service.execution import tune, watchdog
from service.execution.driver import SAME
from service.execution.tune import DriverSearcher, JournalScheduler, run_on_tune
from service.execution.watchdog import (
    FIRST_S,
    PAUSES,
    SILENT_S,
    Watch,
    Watchdog,
    death_errors_as_actor_errors,
    jobs_of,
)
from service.planning.placement import Placement
from service.storage.facts import Ended, FailedWith, Started
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import driving, measure, message, write_weights
from tests.rooms.trainables.data.own_data import reading_arms
from trainables.cgroup import cores
from trainables.launch.errors import LOST, UNREACHABLE
from trainables.recipe.outcome import Diverged


@pytest.fixture(autouse=True)
def _no_nodes(monkeypatch) -> None:
    monkeypatch.setattr(watchdog.ray, "nodes", list)


@pytest.mark.parametrize(
    ("placement", "bundle", "sentence"),
    [
        ({"threads": 3}, {"CPU": 3.0}, "3 CPU"),
        ({"threads": 3, "workers": 2}, {"memory": 2.0**20}, "0.00098 GiB of memory"),
        ({"device": "cuda"}, {"CPU": 1.0, "GPU": 1.0}, "1 CPU and 1 GPU"),
        ({"threads": 2, "run_gib": 1.5}, {"CPU": 2.0, "memory": 1.5 * 2**30}, "2 CPU and 1.5 GiB of memory"),
    ],
)
def test_a_run_asks_for_its_cores_and_memory_and_who_waits_for_a_group_for_no_core(placement, bundle, sentence) -> None:
    """So no node takes more runs than its memory holds."""
    resources, in_words = tune._resources(Placement(max_concurrent=2, **placement))
    assert (resources.bundles, in_words) == ([bundle], sentence)


def test_as_many_runs_fit_on_a_gpu_as_were_asked_for() -> None:
    """Ray rounds to 1/10,000: six times 0.1667 would be more than one GPU."""
    for runs in range(1, 200):
        placement = Placement(max_concurrent=runs, device="cuda", runs_per_gpu=runs)
        share = tune._resources(placement)[0].bundles[0]["GPU"]
        assert runs * round(share * 10_000) <= 10_000 < (runs + 1) * round(share * 10_000) + runs


def reported(home: Home, epochs: list[dict], watch: Watch) -> tuple[list[str], list[str]]:
    """What the scheduler answers to the messages of one run's epochs, and the lines that it prints."""
    lines: list[str] = []
    with driving(home, arms()) as driver:
        job = driver.next()
        scheduler = JournalScheduler(driver, lines.append, watch)
        trial = SimpleNamespace(config={"job": job.plain()}, trial_id="one")
        watch.on_trial_start(0, [], trial)
        answers = [
            scheduler.on_trial_result(None, trial, message(measure(job.run, epoch), job) | more)
            for epoch, more in enumerate(epochs, start=1)
        ]
        assert (job.run.key in driver.in_flight.jobs) == (answers[-1] == "CONTINUE")
        notes = [line.removeprefix(f"run {job.run.key}, attempt 1: ") for line in lines]
        assert driver.folder.log.exists() == bool(lines)
    return answers, notes


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


def suggested(searcher: DriverSearcher, name: str) -> SimpleNamespace | None:
    config = searcher.suggest(name)
    return None if config is None else SimpleNamespace(config=config, trial_id=name, error_file="")


class Pair:
    """A driver of three arms with two seeds, and the pack of two runs with an encoding that Tune trains second.

    `epoch` reports one epoch of some of its runs, and returns what the scheduler answers.
    """

    def __init__(self, driver) -> None:
        driver.placement = Placement(max_concurrent=6, fuse=2)
        self.driver, self.watch = driver, Watch(None)
        self.searcher = DriverSearcher(driver, driver.next())
        suggested(self.searcher, "none")
        self.trial = suggested(self.searcher, "pack")
        self.jobs = jobs_of(self.trial)
        self.watch.on_trial_start(0, [], self.trial)
        self.scheduler = JournalScheduler(driver, lambda line: None, self.watch)

    def epoch(self, number: int, *outcomes) -> str:
        told = [{"run": job.run.key, **message(of, job)} for job, of in zip(self.jobs, outcomes, strict=False) if of]
        return self.scheduler.on_trial_result(None, self.trial, {"epoch": number, "runs": json.dumps(told)})

    def in_flight(self) -> list[bool]:
        return [job.run.key in self.driver.in_flight.jobs for job in self.jobs]


@pytest.fixture
def pair(home: Home):
    with driving(home, arms()) as driver:
        yield Pair(driver)


def test_a_pack_holds_runs_that_differ_in_seeds_and_numbers(home: Home) -> None:
    with driving(home, arms()) as driver:
        driver.placement = Placement(max_concurrent=6, fuse=3)
        searcher = DriverSearcher(driver, driver.next())
        packs = [suggested(searcher, name) for name in ("a", "b")]
        assert suggested(searcher, "c") is None, "six runs in packs of three are two places"
        searcher.on_trial_complete("a")
        packs.append(suggested(searcher, "c"))
        named = [[(job.run.recipe.encoding.kind, job.run.seed) for job in jobs_of(pack)] for pack in packs]
        assert named == [[("none", 0), ("none", 1)], [("fourier", 0), ("fourier", 0), ("fourier", 1)], [("fourier", 1)]]


def test_runs_of_a_pack_end_one_by_one_and_those_that_have_are_not_asked(home: Home, pair: Pair) -> None:
    first, other = pair.jobs
    write_weights(Path(other.folder) / "weights.pt", other.run.key)
    for number in range(1, 7):
        outcome = Diverged(epoch=1, reason="train/loss not finite") if number == 1 else None
        answer = pair.epoch(number, outcome, measure(other.run, number))
        assert answer == "CONTINUE", "the last message of a pack says that it is done"
        assert not pair.in_flight()[0]
    ended = {fact.run: fact.outcome for fact in facts(home, arms(), Ended)}
    assert ended == {first.run.key: "diverged", other.run.key: "completed"}


def test_a_run_that_stops_early_leaves_its_pack(pair: Pair, monkeypatch) -> None:
    """Its folder goes, which says so to the process that trains the others."""
    key = pair.jobs[0].run.key
    monkeypatch.setattr(pair.driver, "_stop_early", lambda run, code, measured: run == key)
    assert pair.epoch(1, *(measure(job.run, 1) for job in pair.jobs)) == "CONTINUE"
    assert [Path(job.folder).exists() for job in pair.jobs] == pair.in_flight() == [False, True]


def test_a_pack_that_fails_is_one_failure_and_its_runs_train_again_one_by_one(home: Home, pair: Pair) -> None:
    """Not as many as it had runs, of which ten would end the study."""
    driver, searcher = pair.driver, pair.searcher
    for _ in range(SAME - 2):
        driver.repeated.failed("ValueError: odd", lost=False)
    pair.watch.killed["pack"] = ("ValueError: odd", True)
    pair.scheduler.on_trial_error(None, pair.trial)
    assert driver.repeated.reason is None
    searcher.on_trial_complete("none")
    searcher.on_trial_complete("pack", error=True)
    keys = [job.run.key for job in pair.jobs]
    assert [(fact.run, fact.final) for fact in facts(home, arms(), FailedWith)] == [(key, False) for key in keys]
    suggested(searcher, "the other seeds")
    again = [jobs_of(suggested(searcher, name)) for name in ("b", "c")]
    assert [[(job.run.key, job.attempt) for job in jobs] for jobs in again] == [[(key, 2)] for key in keys]


def test_a_stop_releases_all_runs_of_a_pack(pair: Pair) -> None:
    driver, searcher = pair.driver, pair.searcher
    driver.stop.asked = True
    assert pair.epoch(1, measure(pair.jobs[0].run, 1)) == "STOP"
    assert pair.in_flight() == [False, False]
    assert searcher.waiting, "other seeds"
    waiting = {job.run.key for job in searcher.waiting}
    searcher.on_trial_complete("pack")
    assert searcher.suggest("next") == "FINISHED"
    assert not waiting & driver.in_flight.keys


def test_a_run_whose_images_change_while_it_trains_ends_as_it_was_planned(home: Home, tmp_path: Path) -> None:
    """Its driver would wait for ever for a run that it does not know. The file may even be away for a moment."""
    file = tmp_path / "images"
    edition = reading_arms(file)
    with driving(home, edition) as driver:
        searcher, watch = DriverSearcher(driver), Watch(None)
        scheduler = JournalScheduler(driver, print, watch)
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


AWAY = "The actor 3f is unavailable: The actor is temporarily unavailable: RpcError: Socket closed. The task may"

UNEXPLAINED = "The actor died unexpectedly before finishing this task.\n\tclass_name: \n\tactor_id: ee5c\n"
"""What Ray says of a process on a node that was drained and then died."""


def told(error: Exception) -> list[Exception]:
    """What Tune's own manager tells of the error of a task."""
    heard: list[Exception] = []
    actor = TrackedActor("one", on_error=lambda actor, error: heard.append(error))
    task = TrackedActorTask(actor, on_error=lambda actor, error: heard.append(error))
    resources = SimpleNamespace(free_resources=lambda acquired_resource: None)
    manager = RayActorManager(resource_manager=resources)
    manager._live_actors_to_ray_actors_resources[actor] = (None, None)
    manager._actor_task_failed(tracked_actor_task=task, exception=error)  # as Ray calls it
    return heard


def test_a_process_that_ray_killed_is_a_dead_actor_and_does_not_end_tune():
    """Where Tune no longer raises, the block is of no use any more."""
    with pytest.raises(RuntimeError, match="unexpected exception"):
        told(OutOfMemoryError("running low on memory"))
    with death_errors_as_actor_errors():
        heard = told(OutOfMemoryError("running low on memory"))
    assert [type(error) for error in heard] == [RayActorError, RayActorError]
    assert str(heard[0]) == "running low on memory"


@pytest.mark.parametrize("error", [ActorDiedError(), RayTaskError("train", "Traceback", ValueError("odd"))])
def test_errors_that_tune_knows_stay_as_they_are(error: RayError):
    with death_errors_as_actor_errors():
        assert {*told(error)} == {error}


@pytest.fixture
def nodes(monkeypatch):
    """Nodes of a cluster: one that answers, and one at whose port nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as here, socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))  # it does not listen, and nobody else gets its port
        ports = [one.getsockname()[1] for one in (here, silent)]
        listed = [
            {"NodeID": str(number), "Alive": True, "NodeManagerAddress": "127.0.0.1", "NodeManagerPort": port}
            for number, port in enumerate(ports)
        ]
        monkeypatch.setattr(watchdog.ray, "nodes", lambda: listed)
        yield listed


def test_a_node_is_gone_that_is_dead_does_not_answer_or_was_started_again(nodes):
    """Ray lists both as alive for some seconds, and the new one answers for the old one."""

    def is_gone(*before: str) -> bool:
        watch, trial = Watch(None), SimpleNamespace(trial_id="one")
        watch._nodes["one"] = {*before}
        return watch.is_node_gone(trial)

    assert (is_gone("0", "1"), is_gone("0")) == (True, False)
    assert not is_gone("2"), "it was not there before"
    nodes.append({**nodes[0], "NodeID": "2"})
    assert is_gone("0")
    nodes[0]["Alive"] = False
    assert is_gone("0")
    assert not is_gone("2"), "a run that began on the new one has lost nothing"


@pytest.mark.parametrize(("gone", "reason"), [(True, LOST), (False, UNREACHABLE)])
@pytest.mark.parametrize("text", [AWAY, UNEXPLAINED], ids=["away", "unexplained"])
def test_a_process_without_an_answer_is_lost_where_a_node_is_gone(home: Home, nodes, tmp_path, text, gone, reason):
    """A node that was dead before the run began has not taken it along."""
    nodes[1]["Alive"] = gone
    watch = Watch(None)
    (tmp_path / "error.txt").write_text(text)
    with driving(home, arms()) as driver:
        job = driver.next()
        trial = SimpleNamespace(config={"job": job.plain()}, trial_id="one", error_file=str(tmp_path / "error.txt"))
        watch.on_trial_start(0, [], trial)
        JournalScheduler(driver, print, watch).on_trial_error(None, trial)
    (failed,) = facts(home, arms(), FailedWith)
    assert (failed.reason, failed.counts) == (reason, not gone)


class Watched:
    """A run that is watched. Time is a number, and the driver looks twice a second while it passes."""

    def __init__(self, run_hours: float | None = None, sign: object = None) -> None:
        self.now = 1000.0
        self.dog = Watchdog(run_hours, lambda: self.now)
        self.dog.begin("run", sign)

    def wait(self, seconds: float) -> str | None:
        for _ in range(round(2 * seconds)):
            self.now += 0.5
            self.dog.look()
        return self.dog.silent("run")

    def report(self, *pauses: float) -> None:
        for pause in pauses:
            self.wait(pause)
            self.dog.report("run")


@pytest.mark.parametrize(
    ("reports", "allowed", "before"),
    [
        ([], FIRST_S, "60 min, since its start"),
        ([100], PAUSES * 100, "17 min, and 2 min at most before"),  # counts until a second one comes
        ([100, 900, 10], PAUSES * 900, "150 min, and 15 min at most before"),
        ([1000, 10], SILENT_S, "5 min, and 10 s at most before"),  # a start that is longer than an epoch is forgotten
        ([2, 2, 2], SILENT_S, "5 min, and 2 s at most before"),
        ([60, 60, 60], PAUSES * 60, "10 min, and 1 min at most before"),
    ],
)
def test_a_run_is_silent_after_an_hour_or_ten_times_its_longest_pause(reports, allowed, before) -> None:
    run = Watched()
    run.report(*reports)
    assert run.wait(allowed - 1) is None
    assert run.wait(1) == f"it gave no sign of life for {before}: it was killed"


def test_a_new_checkpoint_is_a_sign_and_an_old_one_is_none_and_who_has_ended_is_not_watched() -> None:
    run = Watched(run_hours=1.5, sign=7.0)
    run.wait(100)
    run.dog.sign("run", 7.0)
    run.dog.sign("run", None)
    assert run.wait(FIRST_S - 100) is not None, "the checkpoint is that of the attempt before"
    run.dog.sign("run", 8.0)
    assert run.wait(0) is None
    run.dog.end("run")
    run.dog.end("run")
    run.dog.report("run")
    assert run.wait(2 * FIRST_S) is run.dog.overdue("run") is None


def test_time_in_which_the_driver_sleeps_does_not_count() -> None:
    run = Watched(run_hours=0.5)
    for _ in range(10):
        run.now += 3600.0
        run.dog.look()
    assert run.dog.silent("run") is run.dog.overdue("run") is None


def test_a_run_with_a_limit_ends_at_its_report_and_is_killed_where_none_comes() -> None:
    run = Watched(run_hours=0.5)
    run.report(1799)
    assert run.dog.overdue("run") is None
    assert run.wait(1) is None, "its next report is waited for"
    assert run.dog.overdue("run") == "it took longer than --run-hours 0.5; the same command continues it"
    assert run.wait(SILENT_S) == run.dog.overdue("run")


@given(st.lists(st.floats(0.0, 5000.0), min_size=1, max_size=20))
def test_a_run_that_reports_at_an_even_pace_is_never_killed(pauses: list[float]) -> None:
    """No pause up to ten times the longest one before it counts, whatever came before."""
    dog = Watched().dog
    before: list[float] = []
    for pause in pauses:
        longest = max(before[1:] or before, default=0.0)
        pause = min(pause, (max(PAUSES * longest, SILENT_S) if before else FIRST_S) - 2)
        dog._awake += pause
        assert dog.silent("run") is None
        dog.report("run")
        before.append(pause)


@pytest.mark.slow
@pytest.mark.parametrize("stops", ["when it is said", "before"])
def test_runs_whose_resources_never_come_are_said_and_end_with_a_stop(home: Home, monkeypatch, stops) -> None:
    """A machine has fewer cores than the run asks for: Tune alone would wait for ever."""
    monkeypatch.setattr(watchdog, "PATIENCE_S", 2.0)
    lines: list[str] = []
    with driving(home, arms()) as driver:
        driver.placement = Placement(max_concurrent=1, threads=cores() + 1)
        job, driver.stop.asked = driver.next(), stops == "before"

        def note(line: str) -> None:
            lines.append(line)
            driver.stop.asked = True

        run_on_tune(driver, job, note=note)
    asks = f"each asks Ray for {cores() + 1} CPU, which may not be free"
    sentence = f"no run has begun for 2 s: {asks}; Ctrl-C ends the study"
    assert lines == ([] if stops == "before" else [sentence])
    assert facts(home, arms(), Started)
    assert not facts(home, arms(), Ended)


@pytest.mark.slow
def test_a_stop_while_ray_starts_lets_it_start_and_end(home: Home, monkeypatch) -> None:
    """Without its GCS a start that asks for something ends this process a minute later: a notebook's, too."""
    import psutil  # Ray brings it along

    start = services.start_gcs_server
    with driving(home, arms()) as driver:

        def started(*arguments, **more):
            done = start(*arguments, **more)
            driver.stop.asked = True
            return done

        monkeypatch.setattr(services, "start_gcs_server", started)
        job = driver.next()
        run_on_tune(driver, job)
        assert driver.stop
    assert "apart" not in {thread.name for thread in threading.enumerate()}
    assert not [child for child in psutil.Process().children() if "gcs_server" in child.name()]
