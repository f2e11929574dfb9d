"""timm's own weights from the cache of the hub, without a network: what timm computes from them, ours computes."""

import json
import os
import subprocess
import sys

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch.nn.functional import interpolate

from trainables.backbones import TimmViT
from trainables.data import RedGreen
from trainables.encodings import Learnable
from trainables.recipe import AdamW, FromTimm, Recipe
from trainables.weights.pretrained import checksum

NAME = "test_vit.r160_in1k"
"""The smallest ViT that timm has weights of: for images of 160 x 160 pixels, 1000 classes."""

LOADS = """
import json, sys
from pathlib import Path
import torch
from trainables.recipe import Recipe, Run
from trainables.spec import LocusError
from trainables.training.loop import build_model_with_weights, train
for name, recipe in json.loads(sys.argv[1]).items():
    run, folder = Run(recipe=Recipe.read(recipe), seed=0), Path(sys.argv[2]) / name
    folder.mkdir()
    try:
        list(train(run, folder))
        torch.save(build_model_with_weights(run.recipe, run.seed).state_dict(), folder / "loaded.pt")
    except LocusError as error:
        (folder / "error.txt").write_text(str(error))
"""


@pytest.fixture(scope="module")
def cached(tmp_path_factory):
    """A cache of the hub with weights drawn at random, as `huggingface_hub` lays it out; the weights."""
    home, commit = tmp_path_factory.mktemp("hub"), "0" * 40
    model = timm.create_model(NAME)
    for number, value in enumerate(model.parameters()):
        torch.nn.init.normal_(value, std=0.1, generator=torch.Generator().manual_seed(number))
    repository = home / "hub" / f"models--timm--{NAME}"
    (repository / "snapshots" / commit).mkdir(parents=True)
    (repository / "refs").mkdir()
    (repository / "refs/main").write_text(commit)
    save_file(model.state_dict(), repository / "snapshots" / commit / "model.safetensors")
    return home, model.state_dict()


def spec(side, **values):
    """One step of a rate that changes nothing."""
    data = RedGreen(image_size=side, train_size=4, val_size=4, test_size=4)
    start = Recipe(data=data, encoding=Learnable(), init=FromTimm(NAME), optimizer=AdamW(epochs=1, lr=1e-30))
    return start.put({"model": TimmViT("test_vit"), **values})


@pytest.fixture(scope="module")
def folder(cached, tmp_path_factory):
    """What trainings from this cache leave, a folder each: at two sizes of images, and with other weights of timm's."""
    folder = tmp_path_factory.mktemp("loaded")
    recipes = {"160": spec(160), "48": spec(48), "other": spec(160, **{"init.name": "deit_tiny_patch16_224.fb_in1k"})}
    plain = json.dumps({name: recipe.plain() for name, recipe in recipes.items()})
    env = {**os.environ, "HF_HOME": str(cached[0]), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1"}
    env.pop("HF_HUB_CACHE", None)
    words = [sys.executable, "-c", LOADS, plain, str(folder)]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("side", [160, 48])
def test_a_cached_file_is_loaded_without_a_network(cached, folder, side):
    """Also for images of another size than timm's: the table is resampled, and the environment says which size it had.

    Only the head, of other classes, is drawn.
    """
    theirs = cached[1]
    sources = json.loads((folder / f"{side}/sources.json").read_text())
    assert sources.pop("init_sha256") == checksum(theirs)
    assert sources == {"init_mean": [0.5] * 3, "init_std": [0.5] * 3, "init_image_size": [160, 160]}
    ours = torch.load(folder / f"{side}/loaded.pt")
    table = theirs["pos_embed"][0]
    if side != 160:
        image = table[1:].T.reshape(1, -1, 10, 10)
        moved = interpolate(image, (3, 3), mode="bicubic", align_corners=False)
        table = torch.cat([table[:1], moved[0].flatten(1).T])
    assert torch.allclose(ours.pop("encoding.learnable.table"), table, atol=1e-6)
    same = {name for name, value in ours.items() if name in theirs and torch.equal(value, theirs[name])}
    assert ours.keys() - same == {"head.weight", "head.bias"}


def test_what_is_not_in_the_cache_is_told(folder):
    said = (folder / "other/error.txt").read_text()
    assert said.startswith("timm's weights of deit_tiny_patch16_224.fb_in1k could not be fetched (")
    assert said.endswith("; give init.kind from_file with a checkpoint")
