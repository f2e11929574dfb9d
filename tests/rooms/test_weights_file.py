"""Files of weights: known by content, read as torch and safetensors write them, refused in one sentence."""

import hashlib

import pytest
import torch
from safetensors.torch import save_file

from trainables.recipe import FromFile, Recipe
from trainables.spec import SpecError
from trainables.weights_file import read_weights

WEIGHTS = {"head.weight": torch.arange(6.0).reshape(2, 3), "norm.bias": torch.ones(3)}


def sha256(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.mark.parametrize("under", [None, "model", "state_dict", "model_state_dict", "safetensors"])
def test_what_others_write_is_read(tmp_path, under):
    path = tmp_path / ("w.safetensors" if under == "safetensors" else "w.pth")
    if under == "safetensors":
        save_file(WEIGHTS, path)
    else:
        torch.save(WEIGHTS if under is None else {under: WEIGHTS, "epoch": 3}, path)
    found = read_weights(str(path), sha256(path))
    assert found.keys() == WEIGHTS.keys()
    assert all(torch.equal(found[name], value) for name, value in WEIGHTS.items())


def test_other_content_is_refused_with_its_digest(tmp_path):
    path = tmp_path / "w.pt"
    torch.save(WEIGHTS, path)
    with pytest.raises(SpecError, match=f"w.pt must have the SHA-256 {'0' * 64}, got {sha256(path)}"):
        read_weights(str(path), "0" * 64)
    with pytest.raises(SpecError, match=r"no file .*/nowhere\.pt"):
        read_weights(str(tmp_path / "nowhere.pt"), "0" * 64)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"epoch": 3, "lr": 0.1}, "must hold a state dict, alone or under model or .*, got one with epoch, lr"),
        ([torch.ones(2)], "must hold a state dict, .* got list"),
        ({}, "must hold a state dict"),
        ({"model": torch.nn.Linear(2, 3)}, "must be a file of tensors, got Weights only load failed"),
        (b"no weights", "must be a file of tensors"),
        (b"", "must be a file of tensors"),
    ],
)
def test_what_is_no_state_dict_is_refused(tmp_path, value, said):
    path = tmp_path / "w.pt"
    if isinstance(value, bytes):
        path.write_bytes(value)
    else:
        torch.save(value, path)
    with pytest.raises(SpecError, match=said):
        read_weights(str(path), sha256(path))
    path.rename(tmp_path / "w.safetensors")
    with pytest.raises(SpecError, match="must be a file of tensors"):
        read_weights(str(tmp_path / "w.safetensors"), sha256(tmp_path / "w.safetensors"))


def test_a_file_without_its_digest_is_told_it(tmp_path, monkeypatch):
    path = tmp_path / "w.pt"
    path.write_bytes(b"something")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SpecError, match=rf"start\.sha256 must be given \({sha256(path)} is that of w\.pt\), got None"):
        Recipe().put({"start": {"kind": "from_file", "path": "w.pt"}})
    with pytest.raises(SpecError, match=r"start\.sha256 must be given$"):
        Recipe().put({"start": {"kind": "from_file", "path": "v.pt"}})


def test_a_path_is_seen_from_where_it_is_given_and_is_no_part_of_what_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = FromFile("w.pt", "0" * 64)
    assert here.path == str(tmp_path / "w.pt")
    monkeypatch.chdir("/")
    assert FromFile.read(here.plain()) == here
    assert FromFile("w.pt", "0" * 64).identity() == here.identity()
