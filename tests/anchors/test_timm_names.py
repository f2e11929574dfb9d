"""timm's names of ViTs against timm, layer by layer; files in its cache."""

import json
import os
import subprocess
import sys

import pytest
import timm
import torch
from safetensors.torch import save_file
from torch.nn.functional import interpolate, pad

from tests.anchors.timm_vits import candidates, plain
from trainables.backbones import TimmViT, ViT
from trainables.backbones.timm_names import PLAIN
from trainables.backbones.vit import DEIT_BASE, DEIT_SMALL, DEIT_TINY
from trainables.backbones.vit_torch import PositionedViT
from trainables.data import Digits, RedGreen
from trainables.encodings import Learnable, NoEncoding, ReservedChannels
from trainables.recipe import AdamW, FromTimm, FromTrial, Recipe, Run, TaughtByTrial
from trainables.recipe.revisions import code_of
from trainables.spec import SpecError
from trainables.weights.pretrained import checksum

TINY = ViT(embed_dim=192, depth=12, num_heads=3, patch_size=16)
SET = {"data.image_size": 32, "model.kind": "timm"}


@pytest.mark.parametrize("name", [
    "deit_tiny_patch16_224", "deit_small_distilled_patch16_224", "vit_small_patch32_384", "vit_base_patch16_gap_224",
    "vit_so400m_patch14_siglip_gap_224", "vit_giant_patch14_224", "test_vit", "test_vit2", "deit3_small_patch16_224",
    "vit_small_patch14_reg4_dinov2", "vit_so150m_patch16_reg4_gap_256",
])  # fmt: skip
def test_some_names_have_timms_layers(name):
    assert plain(name) == PLAIN[name]


@pytest.mark.parametrize("name", [
    "vit_base_patch16_rope_reg1_gap_256", "vit_small_patch16_18x2_224", "vit_base_patch16_siglip_224",
    "vit_tiny_r_s16_p8_224", "vit_giant_patch14_reg4_dinov2", "vit_betwixt_patch16_gap_256",
    "vit_base_patch16_clip_224", "resnet18",
])  # fmt: skip
def test_other_models_are_not_plain(name):
    assert plain(name) is None
    assert name not in PLAIN


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_list_is_timms():
    """Cost: a minute on an idle machine."""
    found = {name: plain(name) for name in candidates()}
    assert len(found) > 150
    assert {name: model for name, model in found.items() if model is not None} == PLAIN


def test_every_name_is_timms_and_says_patch_and_pool():
    """What timm writes into its names, for those whose layers the fast tests do not compare."""
    assert PLAIN.keys() <= {*candidates()}
    for name, model in PLAIN.items():
        if "patch" in name:
            assert f"patch{model.patch_size}_" in name
        if name.startswith("vit_"):
            assert (model.pool in ("avg", "gap")) == ("_gap_" in name)
            assert model.registers == next((number for number in (1, 4) if f"_reg{number}_" in name), 0)
        assert (model.pool == "distilled") == ("_distilled_" in name)


@pytest.mark.parametrize("name", [
    "deit_tiny_patch16_224", "deit_small_distilled_patch16_224", "vit_small_patch14_reg4_dinov2",
])  # fmt: skip
def test_the_number_of_weights_is_timms(name):
    with torch.device("meta"):
        theirs = timm.create_model(name, num_classes=7)
    size = (3, *theirs.patch_embed.img_size)
    prefix = theirs.num_prefix_tokens if getattr(theirs, "no_embed_class", False) else 0
    rows = Learnable().parameters(PLAIN[name].shapes(size)[0])
    assert rows == theirs.pos_embed.numel() + prefix * theirs.embed_dim
    counted = PLAIN[name].parameters(size, 7, ReservedChannels()) + theirs.pos_embed.numel()
    assert counted == sum(value.numel() for value in theirs.parameters())


def test_deit_is_among_them():
    for name, model in (("tiny", DEIT_TINY), ("small", DEIT_SMALL), ("base", DEIT_BASE)):
        assert PLAIN[f"deit_{name}_patch16_224"] == model


def test_their_outputs_are_timms():
    """`test_vit2` has a register, whose row of our table is zero."""
    images = torch.randn(2, 3, 160, 160, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for name in ("test_vit", "test_vit2"):
        theirs = timm.create_model(name, num_classes=7).double().eval()
        weights = dict(theirs.state_dict())
        ours = PositionedViT(PLAIN[name], (3, 160, 160), 7, Learnable()).double().eval()
        table = weights.pop("pos_embed")[0]
        weights["encoding.learnable.table"] = pad(table, (0, 0, ours.grid.tokens - len(table), 0))
        ours.load_state_dict(weights)
        assert torch.allclose(ours(images), theirs(images), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["deit_tiny_patch16_224", "vit_tiny_patch16_384.augreg_in21k_ft_in1k"])
def test_a_recipe_that_names_a_model_is_the_recipe_with_its_numbers(name):
    """So both share their runs: the key, the code, the JSON are the same."""
    named = Recipe().put(SET | {"model.name": name})
    plainly = Recipe(data=RedGreen(image_size=32), model=TINY)
    assert named == plainly == Recipe(data=RedGreen(image_size=32), model=TimmViT(name))
    assert Recipe.read(named.plain()) == Recipe.read({"data": plainly.data.plain(), "model": TimmViT(name).plain()})
    assert Run(recipe=named, seed=0).key == Run(recipe=plainly, seed=0).key
    assert code_of(named) == code_of(plainly)
    assert named.model.plain()["kind"] == "vit"


def test_a_named_model_can_be_changed():
    named = Recipe().put(SET | {"model.name": "deit_tiny_patch16_224", "model.drop_path": 0.1, "model.pool": "gap"})
    assert named.model == TINY.put({"drop_path": 0.1, "pool": "gap"})
    assert named.put({"model.depth": 3}).model.depth == 3
    with pytest.raises(SpecError, match=r"no field 'model\.depth'; known: kind, name, pool, drop_path"):
        Recipe().put(SET | {"model.name": "deit_tiny_patch16_224", "model.depth": 3})


def test_parents_and_teachers_can_be_named():
    values = SET | {"model.name": "deit_tiny_patch16_224"}
    spec = Recipe(data=RedGreen(image_size=32), model=TINY, init=FromTrial(values={**values, "encoding": NoEncoding()}))
    assert spec.parent == Recipe().put(values)
    student = Recipe(data=Digits(), model=ViT(patch_size=2, pool="distilled"), teacher=TaughtByTrial(values={}))
    with pytest.raises(SpecError, match=r"teacher\.values must give a valid recipe: model\.patch_size must be a divi"):
        student.put({"teacher.values": {"model.kind": "timm", "model.name": "deit_tiny_patch16_224"}})


@pytest.mark.parametrize(("name", "near"), [
    ("deit_tiny_patch_224", "deit_tiny_patch16_224"), ("vit_giant_patch14_dinov2", "vit_giant_patch14_224"),
    ("resnet18", ""), ("", ""),
])  # fmt: skip
def test_other_names_are_refused_with_names_like_them(name, near):
    must = r"one of timm's ViTs that have no other layers than model\.kind vit"
    with pytest.raises(SpecError, match=rf"^model\.name must be {must}, such as .*{near}.*, got {name!r}$"):
        Recipe().put(SET | {"model.name": name})


def test_a_name_must_be_given():
    with pytest.raises(SpecError, match=r"^model\.name must be given$"):
        Recipe().put(SET)


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
