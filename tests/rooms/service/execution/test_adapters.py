"""Room: what Tune's scheduler passes on to the driver."""

from types import SimpleNamespace

from service.execution.tune import JournalScheduler
from service.execution.watchdog import Nodes, Watch
from service.storage.facts import FailedWith
from service.storage.home import Home
from tests.rooms.service.execution.studies import arms, facts
from tests.rooms.toy import driving, measure, message


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
