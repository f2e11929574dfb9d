"""Ctrl-C before a study begins: one line, the command that goes on, and exit code 130."""

import signal
from contextlib import suppress

import pytest

from service.__main__ import PATIENCE_S
from tests.journeys.terminal import Terminal
from tests.waiting import until

READS_FOR_LONG = """
import pathlib, time
pathlib.Path("begun").touch()
SLEEP
"""


@pytest.mark.parametrize("sleep", ["time.sleep(600)", "exec('time.sleep(600)')"], ids=["a file", "compiled from text"])
def test_while_a_study_file_is_read(tmp_path, sleep) -> None:
    """Typer alone would end with the code, and without a word; Python, in compiled text, by SIGINT and not the code."""
    (tmp_path / "study.py").write_text(READS_FOR_LONG.replace("SLEEP", sleep))
    terminal = Terminal(tmp_path)
    running = terminal.begin("plan", "./study.py", "--seeds", "2")
    until((tmp_path / "begun").exists)
    running.interrupt()
    ended = running.end(60)
    assert (ended.code, ended.err) == (130, "")
    assert ended.out == "stopped\ncontinue   locus plan ./study.py --seeds 2\n"


LOST = """
import os, signal, sys, weakref
import service.cli
from service.__main__ import main
from service.execution.signals import Stop, StopSignals

class Module: pass

def command():
    module = Module()
    watched = weakref.ref(module, lambda _: os.kill(os.getpid(), signal.SIGINT))
    del module
    print("went on", flush=True)
    with StopSignals(Stop(), print).installed():
        print("trains", flush=True)

service.cli.main = command
sys.argv = ["locus", "run", "reach"]
main()
"""
"""Python drops a KeyboardInterrupt that is raised within a callback, as each import has one."""


def test_a_press_that_python_loses_is_heard_before_a_study_begins(tmp_path) -> None:
    ended = Terminal(tmp_path).python(LOST)
    assert (ended.code, ended.out) == (130, "went on\nstopped\ncontinue   locus run reach\n")
    assert "Exception ignored in" in ended.err, "it was lost"


@pytest.mark.parametrize(("verb", "heeds"), [("run", True), ("job", True), ("studies", False)])
def test_a_verb_that_conducts_a_study_heeds_what_it_was_started_to_ignore(tmp_path, verb, heeds) -> None:
    """As all that a script starts with `&`: a cluster, and so its jobs, or the driver of Slurm's script."""
    ignored = LOST.replace("import service.cli", "signal.signal(signal.SIGINT, signal.SIG_IGN)\nimport service.cli")
    ended = Terminal(tmp_path).python(ignored.replace('"run"', f'"{verb}"'))
    rest = f"stopped\ncontinue   locus {verb} reach\n" if heeds else "trains\n"
    assert (ended.code, ended.out) == (130 if heeds else 0, f"went on\n{rest}")


ENDS_SLOWLY = """
import atexit, os, pathlib, sys, time
import service.cli
from service.__main__ import main

def last(): print("ending", flush=True); time.sleep(SECONDS)

def command(): atexit.register(last); known()

def clock():
    os.write(1, b"it is ")
    return float(pathlib.Path("now").read_text())

known, service.cli.main = service.cli.main, command
sys.argv = ["locus", "studies", "--nothing"]
main(clock)
"""
"""A command that loads a library which has something to do when Python ends. Its time stands in the file `now`."""


def at(folder, seconds: float) -> None:
    (folder / "later").write_text(str(seconds))
    (folder / "later").rename(folder / "now")


def test_while_python_ends(tmp_path) -> None:
    """The exit code is that of the command: a second press of an impatient user changes nothing."""
    terminal = Terminal(tmp_path)
    at(tmp_path, 0)
    running = terminal.begin_python(ENDS_SLOWLY.replace("SECONDS", "0.5"))
    running.wait_for("ending")

    def ended_while_pressed() -> bool:
        with suppress(ProcessLookupError):  # ended between the look and the press
            running.interrupt()
        return running.process.poll() is not None

    until(ended_while_pressed)
    ended = running.end(60)
    assert ended.code == 2
    assert "Traceback" not in ended.err


def test_a_python_that_does_not_end_is_ended_by_a_late_press(tmp_path) -> None:
    """What another library does at the end may hang; the exit code is that of the command all the same."""
    terminal = Terminal(tmp_path)
    at(tmp_path, 0)
    running = terminal.begin_python(ENDS_SLOWLY.replace("SECONDS", "600"))
    running.wait_for("ending")
    at(tmp_path, PATIENCE_S)
    for presses in (1, 2):
        running.interrupt()
        running.wait_for("ending\n" + "it is " * presses)
    at(tmp_path, PATIENCE_S + 0.5)
    running.interrupt()
    assert running.end(60).code == 2


IN_PYTHON = """
import sys
from service.execution.signals import continued_by

def stopped():
    with continued_by("the same call continues"):
        raise KeyboardInterrupt

try:
    stopped()
except KeyboardInterrupt as error:
    print(error, error._render_traceback_())
END
"""


@pytest.mark.parametrize(("end", "code", "first", "last"), [
    ("stopped()", -signal.SIGINT, "the same call continues", "the same call continues"),
    ("1 / 0", 1, "Traceback (most recent call last):", "ZeroDivisionError: division by zero"),
    ("raise KeyboardInterrupt", -signal.SIGINT, "Traceback (most recent call last):", "KeyboardInterrupt"),
])  # fmt: skip
def test_python_shows_a_line_for_a_study_that_was_interrupted_and_its_own_for_other_errors(
    tmp_path, end, code, first, last
) -> None:
    """A notebook asks an error for its lines by `_render_traceback_`."""
    ended = Terminal(tmp_path).python(IN_PYTHON.replace("END", end))
    assert (ended.code, ended.out) == (code, "the same call continues ['the same call continues']\n")
    assert (ended.err.splitlines()[0], ended.err.splitlines()[-1]) == (first, last)
