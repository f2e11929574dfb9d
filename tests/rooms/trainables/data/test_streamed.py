"""Images that are streamed: the same batches by any number of processes, and an error that names its file."""

import contextlib
import itertools
import multiprocessing
import os
import pickle
import shutil
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from torch.utils.data import get_worker_info

from tests.full_disk import files_of_at_most
from tests.rooms.trainables.data import pictures
from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.backbones import ViT
from trainables.data import Cifar10, Folder, folder_contents, images, streamed_torch
from trainables.data.augment import DeiT
from trainables.data.augment_torch import Augmentation
from trainables.data.images_torch import Records
from trainables.data.splits_torch import Reading, Workers, load
from trainables.data.streamed_torch import StreamedSplit, part_size
from trainables.recipe import AdamW, Recipe, Run
from trainables.spec import LocusError
from trainables.training.loop import train


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
    """Where half of the free disk does not hold it, decoded."""
    resident = load(spec, Reading(tmp_path / "data"))
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2 * spec.decoded_bytes - 1))
    streamed = load(spec, Reading(tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    for name in ("train", "validation", "test"):
        one, other = getattr(resident, name), getattr(streamed, name)
        assert isinstance(other, StreamedSplit)
        assert torch.equal(one.targets, other.targets)
        assert same(batches(one), batches(other))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_large_set_is_decoded_once_where_the_disk_has_room(spec, tmp_path, monkeypatch, workers):
    """And is read from the file batch by batch, with the very images; the pictures are not opened again."""
    resident = load(spec, Reading(tmp_path / "data"))
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2 * spec.decoded_bytes))
    first = load(spec, Reading(tmp_path / "other"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    monkeypatch.delattr(Records, "opened")
    with contextlib.closing(Workers(workers)) as processes:
        again = load(spec, Reading(tmp_path / "other", workers=processes))
        for name in ("train", "validation", "test"):
            assert isinstance(getattr(again, name), StreamedSplit)
            for split in (getattr(first, name), getattr(again, name)):
                assert torch.equal(split.targets, getattr(resident, name).targets)
                assert same(batches(split), batches(getattr(resident, name)))


@contextlib.contextmanager
def augmented(spec, workers):
    """The splits, with so many processes, which end."""
    augmentation = Augmentation(DeiT(), 0, 36, 3)
    with contextlib.closing(Workers(workers)) as processes:
        yield load(spec, Reading(change=augmentation.change, workers=processes))


def test_processes_change_no_batch(spec):
    with augmented(spec, 0) as alone:
        assert isinstance(alone.train, StreamedSplit)
        assert not isinstance(alone.test, StreamedSplit)
        first, second = batches(alone.train, 1), batches(alone.train, 2)
    assert not same(first, second)
    for workers in (2, 3):
        with augmented(spec, workers) as many:
            assert same(batches(many.train, 1), first)
            assert same(batches(many.train, 2), second)
            assert same(batches(many.train, 1), first)


def seen(spec, workers):
    """All that a run sees of its three splits, one after another, and how many processes it has then."""
    with augmented(spec, workers) as splits:
        epochs = [batches(split) for split in (splits.train, splits.validation, splits.test, splits.train)]
        return epochs, len(multiprocessing.active_children())


@pytest.mark.slow
@pytest.mark.parametrize(("method", "workers"), [("spawn", 2), ("forkserver", 3)])
def test_processes_may_start_in_each_way(spec, monkeypatch, method, workers):
    """macOS spawns them, Python 3.14 asks a server to fork them: neither inherits what cannot be pickled."""
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    alone, _ = seen(spec, 0)
    usual = multiprocessing.get_start_method()
    multiprocessing.set_start_method(method, force=True)
    try:
        many, count = seen(spec, workers)
    finally:
        multiprocessing.set_start_method(usual, force=True)
    assert count == workers
    assert all(same(one, other) for one, other in zip(alone, many, strict=True))


def test_all_that_processes_get_can_be_pickled(spec, tmp_path, monkeypatch):
    """Of each set: what decodes an image, before and after its first use."""
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    pictures.cifar(tmp_path, monkeypatch, "cifar10", train=20, test=10)
    folder = Reading(tmp_path, change=Augmentation(DeiT(), 0, 36, 3).change)
    for data in (spec, Cifar10(train_size=10, val_size=10)):
        split = load(data, folder).train
        for _ in range(2):
            again = pickle.loads(bytes(ForkingPickler.dumps(split.pixels)))
            assert np.array_equal(again((1, 0, 0)), split.pixels((1, 0, 0)))


def test_three_splits_share_one_pool_which_ends(spec, monkeypatch):
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    assert seen(spec, 2)[1] == 2
    assert multiprocessing.active_children() == []
    with augmented(spec, 2) as splits:
        halfway = splits.train.batches(torch.split(torch.arange(36), 6), torch.float32)
        next(halfway)
        expected, _ = seen(spec, 0)
        assert same(batches(splits.validation), expected[1]), "what the other split has asked for is left out"
        with pytest.raises(AssertionError, match="must be taken before"):
            list(halfway)


def test_a_run_that_fails_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    monkeypatch.setattr(folder_contents, "DECODED_BYTES", 100)
    root = image_folder(tmp_path / "set", {"train": 12, "test": 4})
    path = root / "train" / "class_1" / "0015.png"
    path.write_bytes(path.read_bytes()[:50])  # the header alone
    model = ViT(embed_dim=8, num_heads=2, patch_size=2)
    recipe = Recipe(data=Folder(path=str(root), image_size=6), model=model, optimizer=AdamW(epochs=1, batch_size=6))
    with pytest.raises(LocusError, match=str(path)) as caught:
        list(train(Run(recipe, 0), tmp_path, loader_workers=2))
    assert caught.tb is not None, "which holds on to all that the run had"
    assert multiprocessing.active_children() == []


def test_what_waits_in_shared_memory_is_bounded(monkeypatch):
    """Batches of 1024 images of 224 x 224 would be 147 MiB each; in a container 64 MiB may be all that there is."""
    for shared, workers, side in itertools.product((streamed_torch.SHARED_BYTES, 16 * 2**20), (1, 15, 63), (32, 224)):
        monkeypatch.setattr(streamed_torch, "shared_bytes", lambda shared=shared: shared)
        images = part_size(3 * side * side, workers)
        assert 1 <= images <= streamed_torch.PART
        waiting = images * 3 * side * side * workers * streamed_torch.AHEAD
        assert waiting <= shared or images == 1
    monkeypatch.undo()
    memory = os.statvfs(streamed_torch.SHARED)
    assert streamed_torch.shared_bytes() <= memory.f_blocks * memory.f_frsize / 4


def without_room(key):
    """A picture of a process that may have no more than 100 bytes of shared memory."""
    if get_worker_info() is not None:
        files_of_at_most(100)
    return np.zeros((3, 8, 8), np.uint8)


def test_shared_memory_that_is_full_is_a_sentence():
    """torch shares a tensor in a thread, where an error would be printed; the training would wait without end."""
    with contextlib.closing(Workers(1)) as workers:
        split = StreamedSplit(without_room, torch.zeros(4, dtype=torch.long), workers)
        with pytest.raises(LocusError, match=r"^/dev/shm must have room for images .*--shm-size=1g.*, got: [^\n]*$"):
            next(iter(split.batches([torch.arange(4)], torch.float32)))


def test_loading_leaves_the_global_generators_as_they_were(spec):
    torch.manual_seed(3)
    expected = torch.rand(2), np.random.get_state()[1].sum()
    torch.manual_seed(3)
    with augmented(spec, 2) as splits:
        batches(splits.train)
    assert torch.equal(torch.rand(2), expected[0])
    assert np.random.get_state()[1].sum() == expected[1]


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_names_its_file(spec, tmp_path, workers):
    path = tmp_path / "set" / "train" / "class_1" / "0015.png"
    before = path.stat()
    with augmented(spec, workers) as splits:
        path.write_bytes(b"no image".ljust(before.st_size))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # else it counts as changed
        with pytest.raises(LocusError, match=f"^{path} must be an image that Pillow can read, got: [^\n]*$"):
            batches(splits.train)


def test_an_image_that_changes_while_it_is_streamed_is_refused(spec, tmp_path):
    """Else a run would go on with images that its key does not name."""
    path = tmp_path / "set" / "train" / "class_1" / "0015.png"
    with augmented(spec, 0) as splits:
        picture(7).save(path)
        with pytest.raises(LocusError, match=f"^{path} must stay as it is while runs read it, got a change"):
            batches(splits.train)
