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


LOADED = "loaded True"
REFUSED, REFUSED_SPEC = (f"trainables/encodings/{name} {CHANGED}" for name in (HALF, SPEC))
ITSELF = "\n_file = __import__('pathlib').Path(__file__)\n_file.write_text(_file.read_text() + '\\nSPARE = 2\\n')\n"
SCENES = {
    "nobody edits": ({}, "planned = CodeDigests()(peg)\n" + 2 * "print(tried(planned))\n", [LOADED, LOADED]),
    "edited before its import": (  # other runs of the process go on; the code of after the edit is refused nowhere
        {},
        "imported_code()\nplanned, plain = CodeDigests()(peg), CodeDigests()(none)\n"
        f"edit({HALF!r})\nprint(tried(planned))\nprint(tried(plain))\nprint(tried(CodeDigests()(peg)))",
        [REFUSED, LOADED, LOADED],
    ),
    "what it imported is trained, whatever stands in the file now": (
        {},
        f"planned = CodeDigests()(peg)\nimported_code()\nedit({SPEC!r})\nprint(tried(planned))\n"
        "print(tried(CodeDigests()(peg)))",
        [LOADED, REFUSED_SPEC],
    ),
    "imported edited, and the edit undone": (  # PEG's file is imported with the list, and remembered though unused
        {SPEC: "\nSPARE = 1\n"},
        f"print(tried(CodeDigests()(none)))\nundo({SPEC!r})\nprint(tried(CodeDigests()(peg)))",
        [LOADED, REFUSED_SPEC],
    ),
    "edits itself while it is imported": (  # what this process holds, nobody can know
        {HALF: ITSELF}, 2 * "print(tried(CodeDigests()(peg)))\n", [REFUSED, REFUSED],
    ),
    "cannot be read": (
        {},
        f"imported_code()\nplanned = CodeDigests()(peg)\n(FOLDER / 'encodings' / {HALF!r}).write_text('def half(')\n"
        "print(tried(planned))",
        [REFUSED],
    ),
}  # fmt: skip
"""What is added to files before the process begins, what it does, and what it prints."""


@pytest.mark.parametrize("name", SCENES)
def test_a_process_trains_what_it_has_imported_or_refuses_by_name(tree: Path, said, name) -> None:
    added, code, lines = SCENES[name]
    for file, text in added.items():
        (tree / "trainables" / "encodings" / file).open("a").write(text)
    assert said(code) == lines
    assert changed(REFUSED)
