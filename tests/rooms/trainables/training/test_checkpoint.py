"""Files that are whole or absent, and which of a parent's weights a run takes."""

from contextlib import suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.encodings import Composed, Fourier, Learnable, NoEncoding
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.spec import SpecError
from trainables.training.checkpoint import DamagedError, packed, read, write
from trainables.training.init import init_weights
from trainables.weights.load import load_weights


def model(encoding, seed, **data):
    built = build_model(
        Recipe(data=RedGreen(image_size=16, **data), model=ViT(embed_dim=8, num_heads=2), encoding=encoding)
    )
    init_weights(built, seed)
    return built


def taken_by(child, parent, part):
    """The names that `take` says it took, after looking that exactly these changed hands."""
    before = {name: value.clone() for name, value in child.state_dict().items()}
    names = load_weights(child, parent.state_dict(), part)
    for name, value in child.state_dict().items():
        assert torch.equal(value, parent.state_dict()[name] if name in names else before[name]), name
    return set(names)


def test_what_is_written_is_read_as_plain_values(tmp_path):
    value = {"tensor": torch.arange(6.0).reshape(2, 3), "curve": [{"epoch": 1, "values": {"train/loss": 0.1 + 0.2}}]}
    write(tmp_path / "file.pt", value)
    back = read(tmp_path / "file.pt")
    assert torch.equal(back["tensor"], value["tensor"])
    assert back["curve"] == value["curve"]
    assert [path.name for path in tmp_path.iterdir()] == ["file.pt"]


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    write(tmp_path / "file.pt", {"old": 1})
    with pytest.raises(AttributeError, match="pickle"):
        write(tmp_path / "file.pt", {"new": torch.zeros(1000), "bad": lambda: None})
    assert read(tmp_path / "file.pt") == {"old": 1}


VALUE = {"w": torch.arange(500.0), "curve": [0.1, 0.2]}
CONTENT = packed(VALUE)


@given(place=st.integers(0, len(CONTENT) - 1), bit=st.integers(0, 7))
def test_a_changed_bit_is_seen_or_changes_nothing(tmp_path_factory, place, bit):
    """torch.load alone does not see it, and a run would go on with a wrong number."""
    path = tmp_path_factory.mktemp("bits") / "file.pt"
    content = bytearray(CONTENT)
    content[place] ^= 1 << bit
    path.write_bytes(content)
    with suppress(DamagedError):
        back = read(path)
        assert torch.equal(back["w"], VALUE["w"])
        assert back["curve"] == VALUE["curve"]


def test_a_changed_weight_is_seen(tmp_path):
    place = CONTENT.index(VALUE["w"].numpy().tobytes()) + 400
    content = bytearray(CONTENT)
    content[place] ^= 1
    (tmp_path / "file.pt").write_bytes(content)
    with pytest.raises(DamagedError, match="the checksum of"):
        read(tmp_path / "file.pt")


@pytest.mark.parametrize("share", [0, 0.5, 0.99])
def test_a_file_that_was_cut_is_seen(tmp_path, share):
    (tmp_path / "file.pt").write_bytes(CONTENT[: int(share * len(CONTENT))])
    with pytest.raises(DamagedError, match="is damaged"):
        read(tmp_path / "file.pt")


def test_all_takes_every_weight_of_an_equal_model():
    child, parent = model(Fourier(), 0), model(Fourier(), 1)
    assert taken_by(child, parent, "all") == set(child.state_dict())


def test_encoding_takes_the_encoding_alone():
    child, parent = model(Fourier(), 0), model(Fourier(), 1)
    assert taken_by(child, parent, "encoding") == {name for name in child.state_dict() if name.startswith("encoding.")}


def test_an_encoding_is_taken_from_among_others():
    child, parent = model(Fourier(), 0), model(Composed(parts=(Learnable(), Fourier())), 1)
    assert taken_by(child, parent, "encoding") == {name for name in child.state_dict() if name.startswith("encoding.")}


@pytest.mark.parametrize("part", ["backbone", "all"])
def test_a_new_encoding_and_the_head_of_another_task_stay_fresh(part):
    child, parent = model(Learnable(), 0), model(NoEncoding(), 1, task="direction4")
    taken = taken_by(child, parent, part)
    assert taken == {name for name in child.state_dict() if not name.startswith(("encoding.", "head."))}


def test_a_head_that_fits_belongs_to_the_backbone():
    assert {"head.weight", "head.bias"} <= taken_by(model(Learnable(), 0), model(NoEncoding(), 1), "backbone")


def test_what_the_parent_lacks_is_refused():
    with pytest.raises(SpecError, match=r"init.values must give a parent with encoding.fourier.* got none"):
        load_weights(model(Fourier(), 0), model(NoEncoding(), 1).state_dict(), "encoding")
    with pytest.raises(SpecError, match=r"of shape \(17, 8\), got shape \(65, 8\)"):
        load_weights(
            model(Learnable(), 0),
            build_model(Recipe(model=ViT(embed_dim=8, num_heads=2), encoding=Learnable())).state_dict(),
            "all",
        )
    with pytest.raises(SpecError, match=r"init.part must"):
        load_weights(model(NoEncoding(), 0), model(Learnable(), 1).state_dict(), "encoding")
