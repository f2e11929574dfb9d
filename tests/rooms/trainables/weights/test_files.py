"""Files of weights that people give: what is read, and what is refused in which words."""

import argparse
import datetime
import hashlib
import json
import pathlib
import re
import types
from collections import OrderedDict, defaultdict

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from timm.models import load_state_dict

from trainables.recipe import FromFile
from trainables.recipe.init_from import digest_of
from trainables.spec import LocusError, SpecError
from trainables.weights.files import read_weights

NORM = torch.arange(6.0).reshape(2, 3)
WEIGHTS = {"blocks.0.norm.weight": NORM, "head.bias": torch.ones(2), "cls_token": torch.ones(3)}
ENDINGS = ".pt, .pth, .bin, .ckpt, .pth.tar, .safetensors or .index.json"
RAN = []


class Hostile:
    """Runs code when it is unpickled carelessly."""

    def __reduce__(self):
        return exec, ("from tests.rooms.trainables.weights.test_files import RAN; RAN.append(1)",)


def written(path, value):
    if path.suffix == ".safetensors":
        save_file(value, path)
    else:
        torch.save(value, path)
    return path, digest_of(path)


def read(path, value, entry=None):
    return read_weights(*written(path, value), WEIGHTS, entry)


def named(prefix, factor=1):
    return {prefix + name: value * factor for name, value in WEIGHTS.items()}


def same(one, factor=1):
    return one.keys() == WEIGHTS.keys() and all(torch.equal(one[name], of * factor) for name, of in WEIGHTS.items())


@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.bin", "w.ckpt", "w.pth.tar", "w.safetensors"])
def test_a_state_dict_comes_back(tmp_path, name):
    assert same(read(tmp_path / name, WEIGHTS).weights)


def test_weights_are_found_wherever_they_stand(tmp_path):
    """Scripts of timm and DeiT, DDP, torch.compile, FSDP, Lightning, DINO's evaluation, I-JEPA, others' modules."""
    for held, entry in [
        ({"model": WEIGHTS, "epoch": 3}, "model"),
        ({"state_dict": OrderedDict(WEIGHTS)}, "state_dict"),
        ({"model_state_dict": WEIGHTS, "model_ema": None}, "model_state_dict"),
        (named("module."), "module"),
        (named("_orig_mod."), ""),
        (named("_orig_mod.module."), "module"),
        (named("module._orig_mod."), "module"),
        ({"blocks.0._fsdp_wrapped_module._orig_mod.norm.weight": WEIGHTS["blocks.0.norm.weight"],
          **{name: WEIGHTS[name] for name in ("head.bias", "cls_token")}}, ""),
        ({"state_dict": named("model."), "optimizer_states": [{"state": {0: {"exp_avg": torch.ones(2)}}}]},
         "state_dict.model"),
        (named("backbone."), "backbone"),
        (named("vit."), "vit"),
        ({"encoder": named("module."), "epoch": 1}, "encoder.module"),
        ({"student": named("module.backbone.")}, "student.module.backbone"),
        ({"state_dict_ema": WEIGHTS}, "state_dict_ema"),
    ]:  # fmt: skip
        found = read(tmp_path / "w.pt", held)
        assert (found.entry, found.left_out) == (entry, ())
        assert same(found.weights)


def test_of_several_models_one_is_chosen_by_name(tmp_path):
    """Never in silence: timm itself takes the average where there is one."""
    options = argparse.Namespace(lr=0.1, model="deit_tiny", betas=(0.9, 0.95))
    timms = {"state_dict": named(""), "state_dict_ema": named("module.", 2), "args": options}
    dino = {"student": named("module.backbone."), "teacher": named("backbone.", 2) | {"head.mlp.weight": torch.ones(1)},
            "dino_loss": {"center": torch.ones(1)}}  # fmt: skip
    moco = {"state_dict": named("module.base_encoder.") | named("module.momentum_encoder.", 2)}
    beside = WEIGHTS | named("teacher.", 2)
    for held, choices, entries in [
        (timms, "'state_dict' or 'state_dict_ema.module'", ("state_dict", "state_dict_ema")),
        (dino, "'student.module.backbone' or 'teacher.backbone'", ("student", "teacher.backbone")),
        (moco, "'state_dict.module.base_encoder' or 'state_dict.module.momentum_encoder'",
         ("state_dict.module.base_encoder.", "state_dict.module.momentum_encoder")),
        (beside, "'' or 'teacher'", ("", "teacher")),
    ]:  # fmt: skip
        path, sha256 = written(tmp_path / "w.pth", held)
        for wrong in (None, "ema"):
            with pytest.raises(LocusError) as caught:
                read_weights(path, sha256, WEIGHTS, wrong, "teacher")
            assert str(caught.value) == f"teacher.entry must be {choices}, the models in {path}, got {wrong!r}"
        for factor, entry in enumerate(entries, 1):
            assert same(read_weights(path, sha256, WEIGHTS, entry).weights, factor)
    assert read(tmp_path / "w.pt", dino, "teacher").left_out == ("dino_loss", "student", "teacher.head")
    path, sha256 = written(tmp_path / "timm.pth.tar", timms)
    assert read_weights(path, sha256, WEIGHTS, "state_dict_ema").weights.keys() == load_state_dict(str(path)).keys()


def test_what_scripts_keep_beside_weights_is_left_out(tmp_path):
    """Options, numbers of numpy, arrays, paths, dates: none of them is made, and none stops the weights."""
    beside = {
        "args": argparse.Namespace(out=pathlib.PurePosixPath("x"), more=types.SimpleNamespace(a=1)),
        "best": np.float64(0.5), "kind": np.dtype("float32"), "counts": np.arange(3), "names": np.array(["a", "b"]),
        "out": pathlib.Path("x"), "windows": pathlib.PureWindowsPath("x"),
        "when": datetime.datetime(2026, 1, 2, tzinfo=datetime.UTC), "took": datetime.timedelta(1),
        "history": defaultdict(list, {"loss": [np.float32(1.0)]}), "seen": defaultdict(int),
    }  # fmt: skip
    for name, value in beside.items():
        assert same(read(tmp_path / "w.pth", {"model": WEIGHTS, name: value}).weights), name
    assert argparse.Namespace not in torch.serialization.get_safe_globals()


def test_weights_in_several_files_are_known_by_all_of_them(tmp_path):
    """An index of safetensors: a changed part is another file of weights."""
    shards = {"a.safetensors": ["cls_token", "head.bias"], "b.safetensors": ["blocks.0.norm.weight"]}
    for shard, names in shards.items():
        save_file({f"vit.{name}": WEIGHTS[name] for name in names}, tmp_path / shard)
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {f"vit.{name}": shard for shard in shards for name in shards[shard]}}))
    sha256 = digest_of(index)
    whole = b"".join(path.read_bytes() for path in (index, tmp_path / "a.safetensors", tmp_path / "b.safetensors"))
    assert sha256 == hashlib.sha256(whole).hexdigest()
    assert same(read_weights(index, sha256, WEIGHTS).weights)
    with pytest.raises(SpecError, match=rf"sha256 must be given \({sha256} is that of"):
        FromFile.read({"kind": "from_file", "path": str(index)})
    save_file({"vit.blocks.0.norm.weight": torch.zeros(2, 3)}, tmp_path / "b.safetensors")
    with pytest.raises(LocusError, match="must have the SHA-256"):
        read_weights(index, sha256, WEIGHTS)
    for content, said in [
        ({"weight_map": {"x": "c.safetensors"}}, "must name files beside it, got 'c.safetensors', which is not there"),
        ({"weight_map": {"x": "../a.pt"}}, "must name files beside it, got '../a.pt', which is not there"),
        ([], "must be an index of files of weights (weight_map), got something else"),
    ]:
        index.write_text(json.dumps(content))
        with pytest.raises(LocusError, match=re.escape(said)):
            digest_of(index)


HUGGING = {"vit.embeddings.cls_token": torch.ones(1), "vit.embeddings.patch_embeddings.projection.bias": torch.ones(1)}


def test_other_contents_are_refused(tmp_path):
    for name, value, said in [
        ("w.pt", {"epoch": 3}, "must hold a state dict of tensors, got none"),
        ("w.pt", [1, 2], "must hold a state dict of tensors, got none"),
        ("w.pt", {"conv1.weight": torch.ones(1)}, "must hold weights under timm's names, such as blocks.0.norm.weight, "
                                                  "got conv1.weight"),
        ("w.pt", HUGGING, "must hold weights under timm's names, such as blocks.0.norm.weight, got "
                          "vit.embeddings.cls_token, vit.embeddings.patch_embeddings.projection.bias, "
                          "Hugging Face's names: give a file of timm's model, or init.kind from_timm"),
        ("w.tar", WEIGHTS, f"must end in {ENDINGS}, got '.tar'"),
        ("w.npz", WEIGHTS, f"must end in {ENDINGS}, got '.npz'; timm reads Google's: "
                           "torch.save(timm.create_model(NAME, checkpoint_path=PATH).state_dict(), 'weights.pt')"),
    ]:  # fmt: skip
        path, sha256 = written(tmp_path / name, value)
        with pytest.raises(LocusError) as caught:
            read_weights(path, sha256, WEIGHTS)
        assert str(caught.value) == f"{path} {said}"


@pytest.mark.parametrize("legacy", [False, True])
def test_what_stops_a_file_is_named_and_never_run(tmp_path, legacy):
    for value, stopped, inside in [
        ({"model": WEIGHTS, "args": Hostile()}, "exec", "['model']"),
        (torch.nn.Linear(2, 2), "torch.nn.modules", ".state_dict()"),
    ]:
        path = tmp_path / "w.pth"
        torch.save(value, path, _use_new_zipfile_serialization=not legacy)
        line = f"torch.save(torch.load('{path}', weights_only=False){inside}, 'weights.pt')"
        with pytest.raises(LocusError) as caught:
            read_weights(path, digest_of(path), WEIGHTS)
        said = str(caught.value)
        assert said.startswith(f"{path} must be readable as .pth without running code")
        assert stopped in said
        how = "where you trust who wrote it, write its weights alone (this runs its code)"
        assert said.endswith(f"in it; {how}: {line}")
        assert "\n" not in said
    assert RAN == []
    torch.save({"model": WEIGHTS, "args": Hostile()}, path)
    torch.load(path, weights_only=False)
    assert RAN.pop() == 1, "the file would have run code"


def test_a_torchscript_archive_is_named(tmp_path):
    path = tmp_path / "w.pt"
    torch.jit.trace(torch.nn.Linear(2, 2), torch.ones(1, 2)).save(path)
    with pytest.raises(
        LocusError, match=r"must be readable as \.pt without running code, .*, got a TorchScript archive$"
    ):
        read_weights(path, digest_of(path), WEIGHTS)


def test_what_was_not_fetched_as_it_should_be_is_named(tmp_path):
    for content, said in [
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 123\n",
         "a pointer of Git LFS; fetch the file itself with: git lfs pull"),
        (b"\n<!DOCTYPE html><html>", "a web page; fetch the file itself, not the page that shows it"),
        (b"", "an empty file"),
    ]:  # fmt: skip
        for name in ("w.pth", "w.safetensors"):
            path = tmp_path / name
            path.write_bytes(content)
            with pytest.raises(LocusError) as caught:
                read_weights(path, digest_of(path), WEIGHTS)
            assert str(caught.value) == f"{path} must be a file of weights, got {said}"


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
def test_a_torn_file_is_refused(tmp_path, name):
    path, _ = written(tmp_path / name, WEIGHTS)
    whole = path.read_bytes()
    for size in (1, 40, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(LocusError, match=r"must be readable as [^\n]*, got [^\n]*$"):
            read_weights(path, digest_of(path), WEIGHTS)


def test_another_file_or_none_is_refused(tmp_path):
    path, sha256 = written(tmp_path / "w.pt", WEIGHTS)
    with pytest.raises(LocusError, match=rf"w\.pt must have the SHA-256 {'0' * 64}, got {sha256}"):
        read_weights(path, "0" * 64, WEIGHTS)
    with pytest.raises(LocusError, match="must be a file of weights, got no such file"):
        read_weights(tmp_path / "gone.pt", sha256, WEIGHTS)
