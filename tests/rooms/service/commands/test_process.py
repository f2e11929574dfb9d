"""A command as a process: Ctrl-C before a study begins, readers that end before it, full disks, other encodings."""

import os
import signal
import subprocess
import sys
from contextlib import suppress
from typing import Any

import pytest

from service.__main__ import PATIENCE_S
from tests.house.test_arrows import ROOT
from tests.journeys.terminal import Terminal
from tests.waiting import until


@pytest.mark.parametrize("sleep", ["time.sleep(600)", "exec('time.sleep(600)')"], ids=["a file", "compiled from text"])
def test_while_a_study_file_is_read(tmp_path, sleep) -> None:
    """Typer alone would end with the code, and without a word; Python, in compiled text, by SIGINT and not the code."""
    begun = "threading.Timer(0.3, pathlib.Path('begun').touch).start()"  # the main thread sleeps by then
    (tmp_path / "study.py").write_text(f"import pathlib, threading, time\n{begun}\n{sleep}\n")
    running = Terminal(tmp_path).begin("plan", "./study.py", "--seeds", "2")
    until((tmp_path / "begun").exists)
    running.interrupt()
    ended = running.end(60)
    assert (ended.code, ended.err) == (130, "")
    assert ended.out == "stopped\ncontinue   locus plan ./study.py --seeds 2\n"


LOST = """
import os, signal, sys, weakref
BEFORE
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
sys.argv = ["locus", "VERB", "reach"]
main()
"""
"""Python drops a KeyboardInterrupt that is raised within a callback, as each import has one."""


@pytest.mark.parametrize(("verb", "before", "heeds"), [
    ("run", "", True),
    ("run", "signal.signal(signal.SIGINT, signal.SIG_IGN)", True),
    ("job", "signal.signal(signal.SIGINT, signal.SIG_IGN)", True),
    ("studies", "signal.signal(signal.SIGINT, signal.SIG_IGN)", False),
])  # fmt: skip
def test_a_press_that_python_loses_or_that_was_ignored_is_heard_before_a_study_begins(tmp_path, verb, before, heeds):
    """Ignored as by all that a script starts with `&`: a cluster, and so its jobs, or the driver of Slurm's script."""
    ended = Terminal(tmp_path).python(LOST.replace("BEFORE", before).replace("VERB", verb))
    rest = f"stopped\ncontinue   locus {verb} reach\n" if heeds else "trains\n"
    assert (ended.code, ended.out) == (130 if heeds else 0, f"went on\n{rest}")
    assert ("Exception ignored in" in ended.err) == heeds, "it was lost"


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


def test_while_python_ends_a_second_press_changes_nothing(tmp_path) -> None:
    at(tmp_path, 0)
    running = Terminal(tmp_path).begin_python(ENDS_SLOWLY.replace("SECONDS", "0.5"))
    running.wait_for("ending")

    def ended_while_pressed() -> bool:
        with suppress(ProcessLookupError):  # ended between the look and the press
            running.interrupt()
        return running.process.poll() is not None

    until(ended_while_pressed)
    ended = running.end(60)
    assert (ended.code, "Traceback" in ended.err) == (2, False)


def test_a_python_that_does_not_end_is_ended_by_a_late_press(tmp_path) -> None:
    """What another library does at the end may hang; the exit code is that of the command all the same."""
    at(tmp_path, 0)
    running = Terminal(tmp_path).begin_python(ENDS_SLOWLY.replace("SECONDS", "600"))
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
def test_python_shows_a_line_for_an_interrupted_study_and_its_own_for_other_errors(tmp_path, end, code, first, last):
    """A notebook asks an error for its lines by `_render_traceback_`."""
    ended = Terminal(tmp_path).python(IN_PYTHON.replace("END", end))
    assert (ended.code, ended.out) == (code, "the same call continues ['the same call continues']\n")
    assert (ended.err.splitlines()[0], ended.err.splitlines()[-1]) == (first, last)


ENDS_AFTER_ITS_READER = """
import sys
import service.cli
from service.__main__ import main
from service.terminal.output import console

def command():
    console().print("one")
    input()
    for line in ("two", "three"):
        console().print(line)
    raise KeyboardInterrupt

service.cli.main = command
main()
"""
A_SCRIPT = ENDS_AFTER_ITS_READER.replace("\nmain()", "\ntry: command()\nexcept KeyboardInterrupt: sys.exit(7)")
GOES_ON = "two\nthree\nstopped\ncontinue   locus {} reach\n"


def begun(*words: str, stdout: Any = subprocess.PIPE, encoding: str = "utf-8", **env: str) -> subprocess.Popen:
    env = os.environ | {"PYTHONPATH": str(ROOT)} | env
    return subprocess.Popen([sys.executable, *words], stdin=-1, stdout=stdout, stderr=-1, encoding=encoding, env=env)


@pytest.mark.parametrize(("words", "script", "code", "err"), [
    ("run reach", ENDS_AFTER_ITS_READER, 130, GOES_ON.format("run")),
    ("job reach", ENDS_AFTER_ITS_READER, 130, GOES_ON.format("job")),
    ("logs -f", ENDS_AFTER_ITS_READER, 0, ""),
    ("forget", ENDS_AFTER_ITS_READER, 130, ""),  # what it removes is removed
    ("run", f"import os; os.dup2(1, 2)\n{ENDS_AFTER_ITS_READER}", 130, ""),  # without a reader of either stream
    ("", A_SCRIPT, 7, ""),
], ids=["run", "job", "looking", "work", "both streams", "a script"])  # fmt: skip
def test_a_study_goes_on_without_its_reader_and_looking_ends_with_it(words, script, code, err) -> None:
    with begun("-c", script, *words.split()) as command:
        assert command.stdout.readline() == "one\n"
        command.stdout.close()
        command.stdout = None
        _, said = command.communicate("\n")
    assert (command.returncode, said) == (code, err)


def test_a_full_disk_is_a_sentence_and_a_study_goes_on() -> None:
    with open("/dev/full", "w") as full, begun("-m", "service", "studies", stdout=full) as looking:
        _, err = looking.communicate()
    why = "locus: standard output must be a file that can be written, got: No space left on device\n"
    assert (looking.returncode, err) == (1, why)
    with open("/dev/full", "w") as full, begun("-c", ENDS_AFTER_ITS_READER, "run", stdout=full) as training:
        _, err = training.communicate("\n")
    assert (training.returncode, err.splitlines()[:3]) == (130, ["one", "two", "three"])


def test_what_an_encoding_lacks_is_escaped_and_what_is_read_is_utf_8_in_any_locale() -> None:
    """The record of a study has curly quotes."""
    outputs = {}
    for name in ("utf-8", "latin-1", "ascii"):
        with begun("-m", "service", "show", "attention-distance", PYTHONIOENCODING=name, encoding=name) as command:
            outputs[name], err = command.communicate()
            assert (command.returncode, err) == (0, "")
    for name in ("latin-1", "ascii"):
        assert outputs[name] == outputs["utf-8"].encode(name, "backslashreplace").decode(name) != outputs["utf-8"]
    with begun("-m", "service", "show", "gabor-fit", LC_ALL="C", PYTHONUTF8="0", PYTHONCOERCECLOCALE="0") as command:
        out, err = command.communicate()
    assert (command.returncode, err) == (0, "")
    assert "\\u201c" in out
