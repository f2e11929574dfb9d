"""The list of files whose code decides numbers, held against what a training really imports."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import trainables
from trainables.backbones import BACKBONES
from trainables.catalog import KINDS
from trainables.code import ALWAYS, NEVER, STARTS, Codes, trunk_file
from trainables.recipe import FromFile, Recipe
from trainables.train import begin

CODE = """
import json, sys, tempfile
from pathlib import Path
from trainables.recipe import Run
from trainables.train import train
runs = [Run.read(run) for run in json.loads(sys.argv[1])]
loaded = []
for run in runs:
    before = set(sys.modules)
    with tempfile.TemporaryDirectory() as folder:
        list(train(run, Path(folder)))
    loaded.append(sorted(name for name in sys.modules if name.split(".")[0] == "trainables"))
print(json.dumps(loaded))
"""
SMALL = {
    "data.image": 16,
    "data.train": 12,
    "data.validation": 4,
    "data.test": 4,
    "model.dim": 16,
    "model.heads": 2,
    "optimiser.epochs": 1,
    "optimiser.batch": 7,
}
DIGITS = {
    "data": {"kind": "digits", "train": 12, "validation": 10, "test": 10},
    "model.patch": 2,
    "optimiser.epochs": 1,
}
ALONE = sorted(set(KINDS) - {"none", "composed"})


def path(module: str) -> str:
    """`trainables.backbones.vit` is backbones/vit.py, a package its __init__.py; relative to trainables/."""
    inside = module.partition(".")[2].replace(".", "/")
    folder = Path(trainables.__file__).parent
    return f"{inside}/__init__.py".lstrip("/") if (folder / inside).is_dir() else f"{inside}.py"


def trained(recipes: list[Recipe]) -> list[set[str]]:
    """The files of trainables/ that are loaded after training the recipes one after another in one process."""
    runs = json.dumps([{"recipe": recipe.plain(), "seed": 0} for recipe in recipes])
    done = subprocess.run(
        [sys.executable, "-c", CODE, runs], capture_output=True, text=True, cwd=os.getcwd(), timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    return [{path(module) for module in loaded} for loaded in json.loads(done.stdout.splitlines()[-1])]


@pytest.fixture(scope="module")
def loads(tmp_path_factory) -> tuple[list[Recipe], list[set[str]]]:
    folder = tmp_path_factory.mktemp("teacher")
    recipes = [Recipe().put(SMALL)]
    recipes += [Recipe().put(SMALL | {"encoding.kind": kind}) for kind in ALONE]
    recipes += [Recipe().put(DIGITS), Recipe().put(SMALL | {"auxiliary.kind": "drloc"}), by_file(folder)]
    weights = tmp_path_factory.mktemp("weights") / "weights.pt"
    torch.save(begin(recipes[0], 0).state_dict(), weights)
    start = FromFile(str(weights), hashlib.sha256(weights.read_bytes()).hexdigest())
    recipes += [Recipe().put(SMALL | {"start": start})]
    small = {path: value for path, value in SMALL.items() if not path.startswith("model.")}
    recipes += [Recipe().put(small | {"model.kind": kind}) for kind in BACKBONES if kind != "vit"]
    return recipes, trained(recipes)


def by_file(folder: Path) -> Recipe:
    """A recipe with a teacher, whose weights lie in a file."""
    import torch

    from trainables.train import begin

    taught = SMALL | {"model.read_out": "distilled"}
    teacher = {"kind": "from_trial", "values": {}}
    torch.save(begin(Recipe().put(taught | {"teacher": teacher}).master, 0).state_dict(), folder / "t.pt")
    sha256 = hashlib.sha256((folder / "t.pt").read_bytes()).hexdigest()
    return Recipe().put(taught | {"teacher": {"kind": "from_file", "path": str(folder / "t.pt"), "sha256": sha256}})


def test_every_kind_trains_with_the_files_it_names_and_no_other(loads) -> None:
    """Files add up over the recipes of one process, so what is new with a recipe must be what it names anew."""
    named: set[str] = set()
    for recipe, loaded in zip(*loads, strict=True):
        named |= {file.removeprefix("trainables/") for file in Codes()(recipe).files}
        assert loaded - set(NEVER) == named, recipe.identity()


def test_the_lists_are_disjoint_and_name_files_that_are_there() -> None:
    folder = Path(trainables.__file__).parent
    assert not set(ALWAYS) & set(NEVER)
    for name in (*ALWAYS, *NEVER):
        assert (folder / name).is_file(), name


def test_every_file_is_always_never_a_kinds_a_data_sets_or_an_objectives() -> None:
    folder = Path(trainables.__file__).parent
    files = {str(file.relative_to(folder)) for file in folder.rglob("*.py")}
    kinds = {name for name in files if name.startswith("encodings/") and name != "encodings/__init__.py"}
    starts = {name for names in STARTS.values() for name in names}
    trunks = {trunk_file(kind) for kind in BACKBONES}
    said = {"red_green.py", "digits.py", "drloc.py", "distillation.py", "resample.py", "transfer.py", "weights_file.py"}
    assert files - kinds - trunks - set(ALWAYS) - set(NEVER) - starts == said
