"""The list of files whose code decides numbers, held against what a training really imports."""

import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import trainables
from tests.rooms.trainables.backbones.test_own import NET
from tests.rooms.trainables.data.own_data import SHAPES
from tests.rooms.trainables.data.pictures import image_folder
from trainables.backbones import MODELS
from trainables.encodings import KINDS
from trainables.recipe import Recipe
from trainables.recipe.code_digest import FOLDER, CodeDigests, computes
from trainables.training.loop import build_model_with_weights

CODE = """
import json, sys, tempfile
from pathlib import Path
from trainables.recipe import Run
from trainables.training.loop import train
from trainables.training.runtime import runtime
runs = [Run.read(run) for run in json.loads(sys.argv[1])]
loaded = []
for run in runs:
    before = set(sys.modules)
    with tempfile.TemporaryDirectory() as folder:
        with runtime(1, run.recipe.optimizer.precision):
            list(train(run, Path(folder)))
    loaded.append(sorted(name for name in sys.modules if name.split(".")[0] == "trainables"))
print(json.dumps(loaded))
"""
SMALL = {
    "data.image_size": 16,
    "data.train_size": 12,
    "data.val_size": 4,
    "data.test_size": 4,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "optimizer.epochs": 1,
    "optimizer.batch_size": 7,
}
DIGITS = {
    "data": {"kind": "digits", "train_size": 12, "val_size": 10, "test_size": 10},
    "model.patch_size": 2,
    "optimizer.epochs": 1,
}
OPTIONS = (
    {"optimizer.layer_decay": 0.5}, {"optimizer.ema_decay": 0.9}, {"model.depth": 2, "model.drop_path": 0.5},
    {"optimizer.kind": "lamb", "optimizer.epochs": 1},
)  # fmt: skip
"""Options of a training that have files of their own."""
BACKBONES = [kind for kind in MODELS if kind != "timm"]
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
    recipes = [Recipe().put(SMALL)]
    recipes += [Recipe().put(SMALL | {"encoding.kind": kind}) for kind in ALONE]
    taught = Recipe().put(SMALL | {"model.pool": "distilled", "teacher": {"kind": "from_trial", "values": {}}})
    teacher = weights_of(taught.teacher_recipe, tmp_path_factory.mktemp("teacher"))
    recipes += [Recipe().put(DIGITS), Recipe().put(SMALL | {"auxiliary.kind": "drloc"})]
    recipes += [taught.put({"teacher": teacher})]
    images = image_folder(tmp_path_factory.mktemp("images"), {"train": 7, "test": 2})
    small = {path: value for path, value in SMALL.items() if not path.startswith("data.")}
    recipes += [Recipe().put(small | {"data": {"kind": "folder", "path": str(images), "image_size": 8}})]
    recipes += [recipes[-1].put({"augment.kind": "standard"})]
    arrays = tmp_path_factory.mktemp("arrays") / "set.npz"
    np.savez(arrays, images=np.arange(20 * 64, dtype=np.uint8).reshape(20, 8, 8), labels=np.arange(20) % 2)
    recipes += [Recipe().put(small | {"data.kind": "arrays", "data.path": str(arrays)})]
    shapes = {"kind": "mine.py:Shapes", "source": SHAPES}
    recipes += [Recipe().put(small | {"data": shapes})]
    recipes += [Recipe().put(SMALL | {"init": weights_of(recipes[0], tmp_path_factory.mktemp("weights"))})]
    small = {path: value for path, value in SMALL.items() if not path.startswith("model.")}
    recipes += [Recipe().put(small | {"model.kind": kind}) for kind in BACKBONES if kind != "vit"]
    recipes += [Recipe().put(SMALL | values) for values in OPTIONS]
    recipes += [Recipe().put(small | {"model.kind": "net.py:MyViT", "model.source": NET})]
    return recipes, trained(recipes)


def weights_of(recipe: Recipe, folder: Path) -> dict[str, str]:
    """How a recipe names a file with the first weights of another one."""
    file = folder / "weights.pt"
    torch.save(build_model_with_weights(recipe, 0).state_dict(), file)
    return {"kind": "from_file", "path": str(file), "sha256": hashlib.sha256(file.read_bytes()).hexdigest()}


def test_every_kind_trains_with_the_files_it_names_and_no_other(loads) -> None:
    """Files add up over the recipes of one process, so the files that are new with a recipe must be those that it adds.

    The specs of all kinds are loaded with the lists of kinds; only those of the kinds in use are named.
    """
    named: set[str] = set()
    digests = CodeDigests()
    for recipe, loaded in zip(*loads, strict=True):
        named |= {*digests.files(recipe)}
        specs = {name for name in loaded if (FOLDER / name.replace(".py", "_torch.py")).is_file()}
        assert named <= loaded, recipe.identity()
        further = loaded - named - specs - SHARED_SPECS
        assert not [*filter(computes, further)], recipe.identity()


SHARED_SPECS = {"backbones/one_grid.py", "backbones/staged.py", "backbones/timm_names.py"}
SHARED_SPECS |= {*(path(cls.__module__) for cls in KINDS.values())}
SHARED_SPECS |= {"data/folder_contents.py", "data/folder_files.py"}
"""Specs without a torch half, and what they import: loaded with the lists of kinds, named by recipes that use them."""


NOT_OF_A_RUN = {
    "backbones/timm_names.py", "data/array_copies.py", "data/class_names_torch.py", "training/model_file.py",
    "training/optional/compiled.py", "training/optional/fused.py", "training/optional/out_of_memory.py",
}  # fmt: skip
"""They compute no number of a run: they name a model, use it after its run, or change how it is trained."""


def test_every_file_of_a_room_that_computes_is_reached_by_some_recipe(loads) -> None:
    """Else an option's own file, which is imported where it is used, could change numbers and no digest."""
    sets = ("cifar10", "flowers102", "oxford_pets", "tiny_imagenet")
    recipes = [*loads[0], loads[0][0].put({"test_sizes": [24]}), *(Recipe().put({"data.kind": kind}) for kind in sets)]
    named = {file for recipe in recipes for file in CodeDigests().files(recipe)}
    files = {str(file.relative_to(FOLDER)) for file in FOLDER.rglob("*.py")}
    assert {file for file in files if computes(file)} - named == NOT_OF_A_RUN
