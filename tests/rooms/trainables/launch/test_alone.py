"""A job in a thread of this process: it waits after each message, and closing it waits for its checkpoint."""

import json
import sys
from pathlib import Path

import pytest

from tests.rooms.trainables.launch.test_worker import job, losses, trained
from trainables.launch import alone
from trainables.launch.alone import Alone
from trainables.launch.errors import WorkError
from trainables.training.checkpoint import read
from trainables.training.saving import Progress


def test_it_says_what_the_training_says_and_then_that_it_has_ended(tmp_path):
    training, said = Alone(job(tmp_path / "a")), []
    while (message := training.next()) is not None:
        said.append(message)
    assert losses(said) == losses(trained(job(tmp_path / "b")))
    assert [json.loads(one["result"])["epoch"] for one in said] == [1, 2, 3]
    training.close()


def test_it_trains_one_epoch_at_a_time(tmp_path):
    training = Alone(job(tmp_path / "a"))
    training.next()
    trained(job(tmp_path / "b"))  # a whole training: time enough for the other one, if it did not wait
    assert not (tmp_path / "a" / "weights.pt").exists()
    training.close()
    assert [path.name for path in Path(tmp_path / "a").iterdir()] == ["checkpoint.pt"]
    assert len(Progress.read(read(tmp_path / "a" / "checkpoint.pt")["progress"]).curve) == 1


def test_closing_waits_until_the_checkpoint_is_written(tmp_path):
    """If it did not, the process of the training could end before."""
    training = Alone(job(tmp_path / "a"))
    training.next()
    training.close()
    assert not training._training.is_alive()
    assert (tmp_path / "a" / "checkpoint.pt").exists()


def test_an_error_of_the_training_is_raised_where_its_next_message_is_awaited(tmp_path):
    given = job(tmp_path / "a")
    (tmp_path / "a" / "checkpoint.pt").mkdir()
    training = Alone(given)
    with pytest.raises(WorkError, match=r"\(checkpoint\.py, line \d+\)$"):
        training.next()
    training.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_training_that_ends_its_thread_is_waited_for_no_longer(tmp_path, monkeypatch):
    """Code of a user's own may call `sys.exit`."""
    monkeypatch.setattr(alone, "work", lambda job, report: sys.exit(3))
    training = Alone(job(tmp_path / "a"))
    assert training.next() is None
    training.close()
