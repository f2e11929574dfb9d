"""What a process has imported: edits of a file before, during and after its import, in processes of a copied tree."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from trainables.launch.errors import CHANGED, changed
from trainables.recipe.code_digest import FOLDER

CODE = """
import sys
from pathlib import Path
from trainables.launch.imported import CodeChangedError, ImportedCode, imported_code
from trainables.recipe import Recipe
from trainables.recipe.code_digest import CodeDigests, FOLDER

def edit(name):
    file = FOLDER / "encodings" / name
    file.write_text(file.read_text() + "\\nSPARE = 1\\n")

def undo(name):
    file = FOLDER / "encodings" / name
    file.write_text(file.read_text().removesuffix("\\nSPARE = 1\\n"))

def tried(planned):
    try:
        imported_code().load(planned)
        return "loaded " + str(imported_code().code(planned) == planned)
    except CodeChangedError as error:
        return str(error)

peg, none = Recipe().put({"encoding.kind": "peg"}), Recipe()
"""
SPEC, HALF = "peg.py", "peg_torch.py"


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("tree")
    shutil.copytree(FOLDER, root / "trainables")  # what is compiled comes along, and holds until a file is edited
    return root


@pytest.fixture
def tree(copied: Path):
    """A tree of the package, which is put back as it was after the test."""
    kept = {name: (copied / "trainables" / "encodings" / name).read_text() for name in (SPEC, HALF)}
    yield copied
    for name, text in kept.items():
        (copied / "trainables" / "encodings" / name).write_text(text)


FORKS = """
import json, os, sys, traceback
import timm, torch
for line in sys.stdin:
    reader, writer = os.pipe()
    if not os.fork():
        os.dup2(writer, 1)
        try:
            exec(json.loads(line), {"__name__": "__main__"})
            sys.stdout.flush()
        except BaseException:
            os.write(writer, traceback.format_exc().encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        print(json.dumps(file.read()), flush=True)
    os.wait()
"""
"""A process that has imported torch and timm and nothing of the package. It runs each code in a fork of itself, which
is as new to the package as a new process, in a tenth of the time."""


@pytest.fixture(scope="module")
def forks(copied: Path):
    env = {**os.environ, "PYTHONPATH": str(copied), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(
        [sys.executable, "-c", FORKS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=copied, env=env
    ) as process:
        yield process


@pytest.fixture
def said(forks):
    """Runs a code in a process of its own, and returns the lines that it prints."""

    def run(code: str) -> list[str]:
        forks.stdin.write(json.dumps(CODE + code) + "\n")
        forks.stdin.flush()
        return json.loads(forks.stdout.readline()).splitlines()

    return run


def test_code_that_nobody_edits_is_loaded_and_known(tree: Path, said) -> None:
    assert said("planned = CodeDigests()(peg)\nprint(tried(planned))\nprint(tried(planned))") == [
        "loaded True",
        "loaded True",
    ]


def test_a_file_that_was_edited_before_its_import_is_refused_by_name(tree: Path, said) -> None:
    """The other runs of the process go on, and the code of after the edit is refused nowhere."""
    code = f"""
imported_code()
planned, plain = CodeDigests()(peg), CodeDigests()(none)
edit({HALF!r})
print(tried(planned))
print(tried(plain))
print(tried(CodeDigests()(peg)))
"""
    (refused, *others) = said(code)
    assert refused == f"trainables/encodings/{HALF} {CHANGED}"
    assert changed(refused)
    assert others == ["loaded True", "loaded True"]


def test_a_process_trains_what_it_imported_whatever_stands_in_the_file_now(tree: Path, said) -> None:
    code = f"""
planned = CodeDigests()(peg)
imported_code()
edit({SPEC!r})
print(tried(planned))
print(tried(CodeDigests()(peg)))
"""
    assert said(code) == ["loaded True", f"trainables/encodings/{SPEC} {CHANGED}"]


def test_a_file_that_was_imported_edited_is_refused_also_when_the_edit_is_undone(tree: Path, said) -> None:
    """PEG's file is imported with the list of encodings, and remembered though the first run does not use it."""
    (tree / "trainables" / "encodings" / SPEC).open("a").write("\nSPARE = 1\n")
    code = f"""
print(tried(CodeDigests()(none)))
undo({SPEC!r})
print(tried(CodeDigests()(peg)))
"""
    assert said(code) == ["loaded True", f"trainables/encodings/{SPEC} {CHANGED}"]


def test_an_edit_during_the_import_is_never_trained(tree: Path, said) -> None:
    """The module edits its own file while it is imported: what this process holds, nobody can know."""
    half = tree / "trainables" / "encodings" / HALF
    half.write_text(
        half.read_text()
        + "\n_file = __import__('pathlib').Path(__file__)\n_file.write_text(_file.read_text() + '\\nSPARE = 2\\n')\n"
    )
    code = """
print(tried(CodeDigests()(peg)))
print(tried(CodeDigests()(peg)))
"""
    refused = f"trainables/encodings/{HALF} {CHANGED}"
    assert said(code) == [refused, refused]


def test_a_file_that_cannot_be_read_is_one_that_changed(tree: Path, said) -> None:
    code = f"""
imported_code()
planned = CodeDigests()(peg)
(FOLDER / "encodings" / {HALF!r}).write_text("def half(")
print(tried(planned))
"""
    assert said(code) == [f"trainables/encodings/{HALF} {CHANGED}"]
