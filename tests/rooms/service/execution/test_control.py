"""Room: a request for a driver is read once, whole, and removed."""

import pytest

from service.execution.signals import Control, Stop, ask_driver, is_to_stop, take_request
from service.storage.home import StudyFolder


@pytest.fixture
def folder(tmp_path) -> StudyFolder:
    return StudyFolder(tmp_path)


def test_a_request_is_taken_once(folder: StudyFolder) -> None:
    assert take_request(folder) is None
    ask_driver(folder, Control(seeds=5))
    assert take_request(folder) == Control(seeds=5)
    assert take_request(folder) is None
    assert list(folder.root.iterdir()) == []


def test_two_requests_become_one(folder: StudyFolder) -> None:
    ask_driver(folder, Control(seeds=5, max_concurrent=3))
    ask_driver(folder, Control(seeds=8, stop="now"))
    assert take_request(folder) == Control(seeds=8, max_concurrent=3, stop="now")


def test_of_two_counts_that_are_not_read_yet_the_higher_one_stays(folder: StudyFolder) -> None:
    ask_driver(folder, Control(seeds=8, trials=4))
    ask_driver(folder, Control(seeds=5, trials=9))
    assert take_request(folder) == Control(seeds=8, trials=9)


def test_one_that_cannot_be_read_asks_for_nothing_and_is_removed(folder) -> None:
    for content in ["", "{", '{"seeds": "many"}', '{"speed": 3}', "\x00"]:
        folder.control.write_text(content)
        assert take_request(folder) is None
        assert not folder.control.exists()
        folder.control.write_text(content)
        ask_driver(folder, Control(trials=9))
        assert take_request(folder) == Control(trials=9)


def test_a_request_to_stop_is_read_while_probes_are_computed_and_others_stay(folder: StudyFolder) -> None:
    stop = Stop()
    assert not is_to_stop(folder, stop)
    ask_driver(folder, Control(seeds=8))
    assert not is_to_stop(folder, stop)
    assert folder.control.exists()
    ask_driver(folder, Control(stop="after the epoch"))
    assert is_to_stop(folder, stop)
    assert stop.asked
    assert take_request(folder) == Control(seeds=8), "who asked for seeds is not told that they were heard"
    ask_driver(folder, Control(stop="now"))
    assert is_to_stop(folder, Stop())
    assert not folder.control.exists()
    assert is_to_stop(folder, Stop(deadline=0.0))
