"""Images that are streamed: the same batches by any number of processes, and an error that names its file."""

import numpy as np
import pytest
import torch

from tests.rooms.trainables.data.pictures import image_folder
from trainables.data import Folder, images
from trainables.data.augment import DeiT
from trainables.data.augment_torch import Augmentation
from trainables.data.splits_torch import Reading, load
from trainables.data.streamed_torch import StreamedSplit
from trainables.spec import LocusError


@pytest.fixture
def spec(tmp_path):
    return Folder(path=str(image_folder(tmp_path / "set", {"train": 12, "test": 4})), image_size=6)


def batches(split, epoch=1):
    """Three batches of the split's images, the last one smaller."""
    numbers = torch.split(torch.randperm(len(split), generator=torch.Generator().manual_seed(epoch)), 12)
    return list(split.batches(numbers, torch.float32, epoch, [torch.zeros_like(some) for some in numbers]))


def same(one, other):
    pairs = [pair for both in zip(one, other, strict=True) for pair in zip(*both, strict=True)]
    return all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_a_large_set_is_streamed_and_has_the_very_images(spec, tmp_path, monkeypatch):
    resident = load(spec, Reading(tmp_path / "data"))
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    streamed = load(spec, Reading(tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    for name in ("train", "validation", "test"):
        one, other = getattr(resident, name), getattr(streamed, name)
        assert isinstance(other, StreamedSplit)
        assert torch.equal(one.targets, other.targets)
        assert same(batches(one), batches(other))


def augmented(spec, workers):
    augmentation = Augmentation(DeiT(), 0, 36, 3)
    return load(spec, Reading(one=augmentation.one, workers=workers))


def test_processes_change_no_batch(spec):
    alone = augmented(spec, 0)
    assert isinstance(alone.train, StreamedSplit)
    assert not isinstance(alone.test, StreamedSplit)
    first, second = batches(alone.train, 1), batches(alone.train, 2)
    assert not same(first, second)
    for workers in (2, 3):
        many = augmented(spec, workers)
        assert same(batches(many.train, 1), first)
        assert same(batches(many.train, 2), second)
        assert same(batches(many.train, 1), first)


def test_loading_leaves_the_global_generators_as_they_were(spec):
    torch.manual_seed(3)
    expected = torch.rand(2), np.random.get_state()[1].sum()
    torch.manual_seed(3)
    batches(augmented(spec, 2).train)
    assert torch.equal(torch.rand(2), expected[0])
    assert np.random.get_state()[1].sum() == expected[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_names_its_file(spec, tmp_path, workers):
    split = augmented(spec, workers).train
    path = tmp_path / "set" / "train" / "class_1" / "0015.png"
    path.write_bytes(b"no image")
    with pytest.raises(LocusError, match=f"^{path} must be an image that Pillow can read, got: [^\n]*$"):
        batches(split)
