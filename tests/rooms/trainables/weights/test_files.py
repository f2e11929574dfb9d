"""Files of weights that people give: what is read, and what is refused in which words."""

import argparse
import hashlib
import re

import pytest
import torch
from safetensors.torch import save_file
from timm.models import load_state_dict

from trainables.spec import LocusError
from trainables.weights.files import read_weights

WEIGHTS = {"head.weight": torch.arange(6.0).reshape(2, 3), "head.bias": torch.ones(2)}


class Hostile:
    """Runs code when it is unpickled carelessly."""

    def __reduce__(self):
        return exec, ("raise SystemExit('ran')",)


def written(path, value):
    if path.suffix == ".safetensors":
        save_file(value, path)
    else:
        torch.save(value, path)
    return path, hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("name", ["w.pt", "w.pth", "w.bin", "w.pth.tar", "w.safetensors"])
def test_a_state_dict_comes_back(tmp_path, name):
    read = read_weights(*written(tmp_path / name, WEIGHTS))
    assert read.keys() == WEIGHTS.keys()
    assert all(torch.equal(read[name], value) for name, value in WEIGHTS.items())


@pytest.mark.parametrize("name", ["model", "state_dict", "model_state_dict"])
def test_a_training_scripts_checkpoint_is_opened(tmp_path, name):
    assert read_weights(*written(tmp_path / "w.pt", {name: WEIGHTS, "epoch": 3})).keys() == WEIGHTS.keys()


def training_file(name, raw, averaged):
    """What the scripts of DeiT (model, model_ema) or timm write, options and all."""
    options = argparse.Namespace(lr=0.1, model="deit_tiny", betas=(0.9, 0.95))
    return {name[0]: raw, name[1]: averaged, "epoch": 3, "args": options, "optimizer": {"state": {}, "lr": 0.1}}


@pytest.mark.parametrize("name", [("model", "model_ema"), ("state_dict", "state_dict_ema")])
@pytest.mark.parametrize("prefix", ["", "module."])
def test_weights_and_their_average_are_as_timm_reads_them(tmp_path, name, prefix):
    average = {prefix + key: value * 2 for key, value in WEIGHTS.items()}
    path, sha256 = written(tmp_path / "w.pth.tar", training_file(name, WEIGHTS, average))
    for ema in (False, True):
        mine, theirs = read_weights(path, sha256, ema=ema), load_state_dict(str(path), use_ema=ema)
        assert mine.keys() == theirs.keys() == WEIGHTS.keys()
        assert all(torch.equal(mine[key], theirs[key]) for key in mine)
        assert torch.equal(mine["head.weight"], WEIGHTS["head.weight"] * (2 if ema else 1))
    assert argparse.Namespace not in torch.serialization.get_safe_globals()


@pytest.mark.parametrize("value", [WEIGHTS, {"model": WEIGHTS, "model_ema": None}])
def test_a_file_without_an_average_has_none_to_read(tmp_path, value):
    path, sha256 = written(tmp_path / "w.pt", value)
    with pytest.raises(LocusError, match=r"must hold averaged weights as model_ema or state_dict_ema, got none"):
        read_weights(path, sha256, ema=True)
    assert read_weights(path, sha256).keys() == WEIGHTS.keys()


@pytest.mark.parametrize("prefix", ["module.", "_orig_mod.", "_orig_mod.module."])
def test_prefixes_of_wrappers_are_removed(tmp_path, prefix):
    wrapped = {prefix + name: value for name, value in WEIGHTS.items()}
    read = read_weights(*written(tmp_path / "w.bin", wrapped))
    assert all(torch.equal(read[name], value) for name, value in WEIGHTS.items())


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("w.pt", {"epoch": 3}, "must hold a state dict of tensors"),
        ("w.pt", {"state_dict_ema": WEIGHTS}, "must hold a state dict of tensors, got averaged weights alone"),
        ("w.tar", WEIGHTS, "must end in .pt"),
        ("w.pth", {"model": WEIGHTS, "args": Hostile()}, "must be readable as .pth without running code"),
        ("w.pt", [1, 2], "must hold a state dict of tensors"),
        ("w.pt", {"a": Hostile()}, "must be readable as .pt without running code"),
        ("w.npz", WEIGHTS, "must end in .pt, .pth, .bin, .pth.tar or .safetensors, got '.npz'"),
    ],
)
def test_other_contents_are_refused(tmp_path, name, value, said):
    path, sha256 = written(tmp_path / name, value)
    with pytest.raises(LocusError, match=re.escape(f"{path} {said}")):
        read_weights(path, sha256)


@pytest.mark.parametrize("name", ["w.pt", "w.safetensors"])
def test_a_torn_file_is_refused(tmp_path, name):
    path, _ = written(tmp_path / name, WEIGHTS)
    path.write_bytes(path.read_bytes()[:40])
    with pytest.raises(LocusError, match="must be readable as"):
        read_weights(path, hashlib.sha256(path.read_bytes()).hexdigest())


def test_another_file_or_none_is_refused(tmp_path):
    path, sha256 = written(tmp_path / "w.pt", WEIGHTS)
    with pytest.raises(LocusError, match=rf"w\.pt must have the SHA-256 {'0' * 64}, got {sha256}"):
        read_weights(path, "0" * 64)
    with pytest.raises(LocusError, match="must be a file of weights, got no such file"):
        read_weights(tmp_path / "gone.pt", sha256)
