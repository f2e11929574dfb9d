"""Readers of the output that end before the command (`| head`, a `tee` at Ctrl-C), full disks, other encodings."""

import os
import subprocess
import sys
from typing import Any

import pytest

from tests.house.test_arrows import ROOT

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


def begun(*words: str, stdout: Any = subprocess.PIPE, encoding: str = "utf-8", **env: str) -> subprocess.Popen:
    known = os.environ | {"PYTHONPATH": str(ROOT)} | env
    return subprocess.Popen([sys.executable, *words], stdin=-1, stdout=stdout, stderr=-1, encoding=encoding, env=known)


def without_reader(*words: str, code: str = ENDS_AFTER_ITS_READER) -> tuple[int, str]:
    """The exit code of Python code whose reader ends after a line, and what it says on standard error."""
    with begun("-c", code, *words) as command:
        assert command.stdout.readline() == "one\n"
        command.stdout.close()
        command.stdout = None
        _, err = command.communicate("\n")
    return command.returncode, err


@pytest.mark.parametrize("verb", ["run", "job"])
def test_a_study_goes_on_without_its_reader_and_stops_as_with_it(verb: str) -> None:
    assert without_reader(verb, "reach") == (130, f"two\nthree\nstopped\ncontinue   locus {verb} reach\n")


def test_looking_ends_with_its_reader_and_work_does_not() -> None:
    assert without_reader("logs", "-f") == (0, "")
    assert without_reader("forget") == (130, ""), "what it removes is removed"


def test_a_study_goes_on_without_a_reader_of_either_stream() -> None:
    assert without_reader("run", code=f"import os; os.dup2(1, 2)\n{ENDS_AFTER_ITS_READER}") == (130, "")


def test_a_script_goes_on_without_its_reader() -> None:
    script = ENDS_AFTER_ITS_READER.replace("\nmain()", "\ntry: command()\nexcept KeyboardInterrupt: sys.exit(7)")
    assert without_reader(code=script) == (7, "")


def test_a_full_disk_is_a_sentence_and_a_study_goes_on() -> None:
    with open("/dev/full", "w") as full, begun("-m", "service", "studies", stdout=full) as looking:
        _, err = looking.communicate()
    why = "locus: standard output must be a file that can be written, got: No space left on device\n"
    assert (looking.returncode, err) == (1, why)
    with open("/dev/full", "w") as full, begun("-c", ENDS_AFTER_ITS_READER, "run", stdout=full) as training:
        _, err = training.communicate("\n")
    assert (training.returncode, err.splitlines()[:3]) == (130, ["one", "two", "three"])


@pytest.mark.parametrize("code", ["ascii", "latin-1"])
def test_what_an_encoding_lacks_is_escaped(code: str) -> None:
    said = []
    for name in (code, "utf-8"):
        with begun("-m", "service", "show", "attention-distance", PYTHONIOENCODING=name, encoding=name) as command:
            said.append(command.communicate())
            assert command.returncode == 0
    (escaped, err), (usual, _) = said
    assert (escaped, err) == (usual.encode(code, "backslashreplace").decode(code), "")
    assert escaped != usual


def test_a_locale_of_ascii_reads_what_is_written_in_utf_8() -> None:
    """A record with curly quotes."""
    ascii_ = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    with begun("-m", "service", "show", "gabor-fit", **ascii_) as command:
        out, err = command.communicate()
    assert (command.returncode, err) == (0, "")
    assert "\\u201c" in out
