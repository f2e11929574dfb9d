"""A file of the house that somebody is editing and that is no Python: one sentence from every verb, no traceback."""

import shutil

import pytest

from tests.journeys.files import ENCODINGS
from tests.journeys.terminal import ROOT, Terminal

VERBS = {
    "plan": ("plan", "./study.py"),
    "run": ("run", "./study.py"),
    "status": ("status",),
    "studies": ("studies",),
    "help": ("--help",),
}


@pytest.fixture(scope="module")
def terminal(tmp_path_factory):
    """A terminal in front of a copy of the three packages, whose home holds one study that was begun."""
    root = tmp_path_factory.mktemp("tree")
    for package in ("service", "search_spaces", "trainables"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    made = Terminal(root, PYTHONPATH=str(root), PYTHONDONTWRITEBYTECODE="1")
    (root / "study.py").write_text(ENCODINGS)
    yield made
    made.clear()


@pytest.fixture(params=["sinusoidal.py", "sinusoidal_torch.py"])
def broken(request, terminal):
    """The file that is imported by every verb that knows of studies, and the one that a plan only reads."""
    file = terminal.folder / "trainables" / "encodings" / request.param
    if not file.exists():
        pytest.skip(f"no {request.param}")
    text = file.read_text()
    file.write_text("import math\n\n\ndef half(:\n")
    yield file
    file.write_text(text)


@pytest.mark.parametrize("verb", VERBS)
def test_a_file_that_is_no_python_is_one_sentence(terminal, broken, verb):
    done = terminal.type(*VERBS[verb])
    touches = (verb != "help" and not broken.name.endswith("_torch.py")) or verb in ("plan", "run")
    if touches:
        assert done.code == 2
        assert done.err.splitlines() == [f"locus: {broken} is no Python: line 4: invalid syntax"]
    else:
        assert (done.code, done.err) == (0, "")
