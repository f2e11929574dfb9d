"""What a process has imported: edits of a file before, during and after its import, in processes of a copied tree."""

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
    shutil.copytree(FOLDER, root / "trainables", ignore=shutil.ignore_patterns("__pycache__"))
    return root


@pytest.fixture
def tree(copied: Path):
    """A tree of the package, which is put back as it was after the test."""
    kept = {name: (copied / "trainables" / "encodings" / name).read_text() for name in (SPEC, HALF)}
    yield copied
    for name, text in kept.items():
        (copied / "trainables" / "encodings" / name).write_text(text)


def said(tree: Path, code: str) -> list[str]:
    env = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CODE + code], capture_output=True, text=True, cwd=tree, env=env, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_code_that_nobody_edits_is_loaded_and_known(tree: Path) -> None:
    assert said(tree, "planned = CodeDigests()(peg)\nprint(tried(planned))\nprint(tried(planned))") == [
        "loaded True",
        "loaded True",
    ]


def test_a_file_that_was_edited_before_its_import_is_refused_by_name(tree: Path) -> None:
    """The other runs of the process go on, and the code of after the edit is refused nowhere."""
    code = f"""
imported_code()
planned, plain = CodeDigests()(peg), CodeDigests()(none)
edit({HALF!r})
print(tried(planned))
print(tried(plain))
print(tried(CodeDigests()(peg)))
"""
    (refused, *others) = said(tree, code)
    assert refused == f"trainables/encodings/{HALF} {CHANGED}"
    assert changed(refused)
    assert others == ["loaded True", "loaded True"]


def test_a_process_trains_what_it_imported_whatever_stands_in_the_file_now(tree: Path) -> None:
    code = f"""
planned = CodeDigests()(peg)
imported_code()
edit({SPEC!r})
print(tried(planned))
print(tried(CodeDigests()(peg)))
"""
    assert said(tree, code) == ["loaded True", f"trainables/encodings/{SPEC} {CHANGED}"]


def test_a_file_that_was_imported_edited_is_refused_also_when_the_edit_is_undone(tree: Path) -> None:
    """PEG's file is imported with the list of encodings, and remembered though the first run does not use it."""
    (tree / "trainables" / "encodings" / SPEC).open("a").write("\nSPARE = 1\n")
    code = f"""
print(tried(CodeDigests()(none)))
undo({SPEC!r})
print(tried(CodeDigests()(peg)))
"""
    assert said(tree, code) == ["loaded True", f"trainables/encodings/{SPEC} {CHANGED}"]


def test_an_edit_during_the_import_is_never_trained(tree: Path) -> None:
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
    assert said(tree, code) == [refused, refused]


def test_a_file_that_cannot_be_read_is_one_that_changed(tree: Path) -> None:
    code = f"""
imported_code()
planned = CodeDigests()(peg)
(FOLDER / "encodings" / {HALF!r}).write_text("def half(")
print(tried(planned))
"""
    assert said(tree, code) == [f"trainables/encodings/{HALF} {CHANGED}"]
