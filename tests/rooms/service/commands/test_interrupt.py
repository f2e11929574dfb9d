"""Ctrl-C before a study begins: one line, the command that goes on, and exit code 130."""

import time

import pytest

from service.__main__ import PATIENCE_S
from tests.journeys.terminal import Terminal

READS_FOR_LONG = """
import pathlib, time
pathlib.Path("begun").touch()
SLEEP
"""


@pytest.mark.parametrize("sleep", ["time.sleep(30)", "exec('time.sleep(30)')"], ids=["a file", "compiled from text"])
def test_while_a_study_file_is_read(tmp_path, sleep) -> None:
    """Typer alone would end with the code, and without a word; Python, in compiled text, by SIGINT and not the code."""
    (tmp_path / "study.py").write_text(READS_FOR_LONG.replace("SLEEP", sleep))
    terminal = Terminal(tmp_path)
    running = terminal.begin("plan", "./study.py", "--seeds", "2")
    while not (tmp_path / "begun").exists():
        assert running.process.poll() is None
        time.sleep(0.01)
    running.interrupt()
    ended = running.end(20)
    assert (ended.code, ended.err) == (130, "")
    assert ended.out == "stopped\ncontinue   locus plan ./study.py --seeds 2\n"


ENDS_SLOWLY = """
import atexit, sys, time
import service.cli
from service.__main__ import main

def last(): print("ending", flush=True); time.sleep(SECONDS)

def command(): atexit.register(last); known()

known, service.cli.main = service.cli.main, command
sys.argv = ["locus", "studies", "--nothing"]
main()
"""
"""A command that loads a library which has something to do when Python ends."""


def test_while_python_ends(tmp_path) -> None:
    """The exit code is that of the command: a second press of an impatient user changes nothing."""
    terminal = Terminal(tmp_path)
    running = terminal.begin_python(ENDS_SLOWLY.replace("SECONDS", "1"))
    running.wait_for("ending")
    for _ in range(20):
        running.interrupt()
        time.sleep(0.05)
    ended = running.end(20)
    assert ended.code == 2
    assert "Traceback" not in ended.err


def test_a_python_that_does_not_end_is_ended_by_a_late_press(tmp_path) -> None:
    """What another library does at the end may hang; the exit code is that of the command all the same."""
    terminal = Terminal(tmp_path)
    running = terminal.begin_python(ENDS_SLOWLY.replace("SECONDS", "600"))
    running.wait_for("ending")
    running.interrupt()
    time.sleep(PATIENCE_S + 0.5)
    assert running.process.poll() is None, "one press is not enough"
    running.interrupt()
    assert running.end(20).code == 2
