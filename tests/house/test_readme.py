"""Two ways to an own encoding, as README and the page of encodings write them: a file, and a kind of the list."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from search_spaces.library import find
from service import cli
from tests.journeys.terminal import Terminal
from trainables.encodings import KINDS
from trainables.encodings.encoding_torch import PositionEncoding
from trainables.recipe import Run
from trainables.source import load
from trainables.training.loop import train

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
SECTION = (ROOT / "trainables/encodings/README.md").read_text()
EVERY_DAY = (ROOT / "service/commands/README.md").read_text()
(CLASS,) = re.findall(r"```python\n(.*?)```", README.split("## My encoding")[1].split("\n## ")[0], re.DOTALL)
STUDY, FILE, IMPORT = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
MINE = f"{CLASS}\n\n{STUDY}"
(LINE,) = re.findall(r"```text\n(.*?)```", SECTION, re.DOTALL)
SMALL = {"data.train_size": 40, "data.val_size": 20, "data.test_size": 20, "data.image_size": 16, "optimizer.epochs": 1}
SETS = [word for path, value in SMALL.items() for word in ("--set", f"{path}={value}")]

TRIES = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
import torch
from trainables.recipe.model_torch import build_model
from trainables.recipe import Recipe, Run
from trainables.training.loop import train
from trainables.recipe.cost import estimate_cost

small = dict(word.split("=") for word in sys.argv[1:])
beside = {"encoding.kind": "ramp", "encoding.injection.kind": "concat", "encoding.injection.split": 0.25}
recipe = Recipe().put({**{path: int(value) for path, value in small.items()}, **beside})
model = build_model(recipe)
assert model.encoding.ramp.slope.shape == (16,)
assert sum(value.numel() for value in model.parameters()) == estimate_cost(recipe).parameters
with TemporaryDirectory() as folder:
    (measured,) = train(Run(recipe=recipe, seed=0), Path(folder))
    slope = torch.load(Path(folder) / "weights.pt")["encoding.ramp.slope"]
assert slope.any() and "test/accuracy" in measured.values
"""


@pytest.fixture
def tree(tmp_path):
    """The rooms and tests with the README's file and its two lines."""
    for room in ("service", "search_spaces", "trainables", "tests"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    for file in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / file, tmp_path / file)
    (tmp_path / "trainables/encodings/ramp.py").write_text(FILE)
    listed = tmp_path / "trainables/encodings/__init__.py"
    text = listed.read_text()
    for line, before in (
        (IMPORT, "from trainables.encodings.relative import Relative as Relative\n"),
        (LINE, "    IRPE,\n"),
    ):
        assert text.count(before) == 1
        text = text.replace(before, line + before)
    listed.write_text(text)
    return tmp_path


def test_the_front_page_is_short_and_its_links_lead_somewhere():
    assert len(README.splitlines()) <= 200
    assert len(README.split()) <= 2000
    for page in (ROOT / "README.md", *(ROOT / "docs").glob("*.md")):
        links = re.findall(r"\]\(([^)#:]+)", page.read_text())
        assert [link for link in links if not (page.parent / link).exists()] == [], page.name


def test_every_kind_is_listed_and_the_recipe_is_short():
    listed = re.findall(r"^\| `(\w+)`", SECTION, re.MULTILINE)
    assert {*listed} >= {*KINDS} - {"none", "composed"}
    assert len(FILE.splitlines()) <= 25
    assert len(IMPORT.splitlines()) == len(LINE.splitlines()) == 1


def test_a_study_file_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    arms = {trial.name: trial for trial in find("./mine.py").at(set=SMALL).arms()}
    assert arms["ramp"].recipe.encoding.std == 0.5
    assert "torch" not in MINE
    (measured,) = train(Run(recipe=arms["ramp"].recipe, seed=0), tmp_path)
    assert "test/accuracy" in measured.values


@pytest.mark.slow
@pytest.mark.gate
def test_a_kind_of_the_list_is_a_file_and_a_line(tree):
    words = [f"{path}={value}" for path, value in SMALL.items()]
    done = subprocess.run([sys.executable, "-c", TRIES, *words], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_spaces_of_the_other_readme_are_legal(tmp_path, monkeypatch):
    *_, block = re.findall(r"```python\n(.*?)```", (ROOT / "search_spaces/README.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(block)
    study = find("./mine.py")
    assert study.at("smoke").study.plan.trials == 4
    others = vars(load("mine.py", block))
    assert {name: others[name].paths() for name in ("study", "ordered", "split")} == {
        "study": ["encoding.places", "encoding.kernel"],
        "ordered": [f"encoding.index.{name}" for name in ("alpha", "beta", "gamma")],
        "split": ["encoding.injection.split"],
    }


def test_the_tuned_ablation_is_legal():
    text = (ROOT / "search_spaces/README.md").read_text().split("**Arms that are tuned first.**")[1]
    study = vars(load("mine.py", re.findall(r"```python\n(.*?)```", text, re.DOTALL)[0]))["study"]
    assert study.at().study.plan.tune.trials == 8


def test_the_commands_of_the_questions_are_there():
    table = EVERY_DAY.split("\n## Questions")[1].split("\n## ")[0]
    verbs = {command.name or command.callback.__name__ for command in cli.app.registered_commands}
    assert {*re.findall(r"`locus (\w+)", table)} <= verbs
    verbs_with_options = ("run", "export", "compare", "doctor", "trust")
    commands = typer.main.get_command(cli.app).commands
    options = {option for verb in verbs_with_options for param in commands[verb].params for option in param.opts}
    assert {*re.findall(r"(--[a-z][a-z-]*)", table)} <= options


CHECKS = {
    "laws": ("pytest", "-q", "tests/laws", "-k", "ramp"),
    "kinds": ("pytest", "-q", "tests/house/test_words.py", "tests/rooms/trainables/encodings/test_specs.py"),
    "lint": ("ruff", "check", "trainables/encodings"),
    "format": ("ruff", "format", "--check", "trainables/encodings"),
    "types": ("mypy",),
}
"""What the README says about the laws, and the parts of `make test` that look at kinds."""


@pytest.mark.slow
@pytest.mark.parametrize("check", CHECKS)
def test_the_new_kind_passes_what_make_test_checks(tree, check):
    words = [sys.executable, "-m", *CHECKS[check]]
    env = {**os.environ, "PYTHONPATH": str(tree)}
    done = subprocess.run(words, cwd=tree, capture_output=True, text=True, env=env)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    if check == "laws":
        assert int(re.search(r"(\d+) passed", done.stdout).group(1)) > 15


def test_the_methods_and_flags_of_the_table_are_there():
    table = SECTION.split("| method or flag |")[1].split("\n\n")[0]
    promised = re.findall(r"^\| `(.*?)` \|", table, re.MULTILINE)
    names = [name for cell in promised for name in re.findall(r"\w+", cell.partition("(")[0])]
    assert len(names) >= 5
    assert [name for name in names if not hasattr(PositionEncoding, name)] == []


@pytest.mark.slow
def test_both_run_as_a_user_types_them(tree):
    (tree / "mine.py").write_text(MINE)
    (tree / "other.py").write_text(MINE.replace('{"encoding": Ramp(std=0.5)}', '{"encoding.kind": "ramp"}'))
    plans = {"mine": "2 runs to train, 0 done, 0 reused", "other": "1 run to train, 0 done, 1 reused"}
    with Terminal(tree, PYTHONPATH=str(tree)) as terminal:
        for file, runs in plans.items():
            assert runs in terminal.do("run", f"./{file}.py", "--seeds", "1", "--as", file, *SETS).out
