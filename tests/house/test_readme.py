"""The README's two ways to an encoding of one's own, as it writes them: a study file, and a kind of the catalog."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from search_spaces.library import find
from tests.journeys.terminal import Terminal
from trainables.recipe import Run
from trainables.training.loop import train

ROOT = Path(__file__).parents[2]
SECTION = (ROOT / "README.md").read_text().split("## Your own encoding")[1].split("\n## ")[0]
MINE, SPEC, MEMBER, FILE, LINE = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
SMALL = {"data.train_size": 40, "data.val_size": 20, "data.test_size": 20, "data.image_size": 16, "optimizer.epochs": 1}
SETS = [word for path, value in SMALL.items() for word in ("--set", f"{path}={value}")]

TRIES = """
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
import torch
from trainables.recipe.model_torch import build_model
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe import Recipe, Run
from trainables.training.loop import train
from trainables.recipe.cost import estimate_cost

small = dict(word.split("=") for word in sys.argv[1:])
beside = {"encoding.kind": "ramp", "encoding.injection.kind": "concat", "encoding.injection.split": 0.25}
recipe = Recipe().put({**{path: int(value) for path, value in small.items()}, **beside})
model = build_model(recipe)
assert model.encoding.ramp.slope.shape == (16,)
assert sum(value.numel() for value in model.parameters()) == estimate_cost(recipe).parameters
assert "trainables/encodings/ramp.py" in CodeDigests()(recipe).files
with TemporaryDirectory() as folder:
    (measured,) = train(Run(recipe=recipe, seed=0), Path(folder))
    slope = torch.load(Path(folder) / "weights.pt")["encoding.ramp.slope"]
assert slope.any() and "test/accuracy" in measured.values
"""


@pytest.fixture
def tree(tmp_path):
    """The rooms with the README's three changes."""
    for room in ("service", "search_spaces", "trainables"):
        shutil.copytree(ROOT / room, tmp_path / room, ignore=shutil.ignore_patterns("__pycache__"))
    catalog, names = tmp_path / "trainables/catalog.py", tmp_path / "trainables/encodings/__init__.py"
    text = catalog.read_text().replace("\n\ndef _kind(", f"\n\n{SPEC}\n\ndef _kind(", 1)
    first = '    | Annotated[Learnable, Tag("learnable")]\n'
    assert text.count(first) == 1
    catalog.write_text(text.replace(first, first + MEMBER))
    begun = "MODULES: dict[str, str] = {\n"
    assert names.read_text().count(begun) == 1
    names.write_text(names.read_text().replace(begun, begun + LINE))
    (tmp_path / "trainables/encodings/ramp.py").write_text(FILE)
    return tmp_path


def test_a_study_file_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(MINE)
    arms = {trial.name: trial for trial in find("./mine.py").at(set=SMALL).arms()}
    assert arms["spiral"].recipe.encoding.turns == 3
    (measured,) = train(Run(recipe=arms["spiral"].recipe, seed=0), tmp_path)
    assert "test/accuracy" in measured.values


def test_a_kind_of_the_catalog_is_a_spec_a_file_and_a_line(tree):
    words = [f"{path}={value}" for path, value in SMALL.items()]
    done = subprocess.run([sys.executable, "-c", TRIES, *words], cwd=tree, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_both_run_as_a_user_types_them(tree):
    terminal = Terminal(tree, PYTHONPATH=str(tree))
    (tree / "mine.py").write_text(MINE)
    (tree / "other.py").write_text(MINE.replace('{"encoding": Spiral(turns=3)}', '{"encoding.kind": "ramp"}'))
    try:
        done = [terminal.type("run", f"./{file}.py", "--seeds", "1", "--as", file, *SETS) for file in ("mine", "other")]
    finally:
        terminal.clear()
    for typed, runs in zip(
        done, ("2 runs to train, 0 done, 0 reused", "1 run to train, 0 done, 1 reused"), strict=True
    ):
        assert typed.code == 0, typed.err
        assert runs in typed.out
