"""A folder is known by what its files hold, which is read once and then kept, never beside the images."""

import os
import shutil
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image

from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.data import Folder, folder_contents
from trainables.data.splits_torch import Reading, load
from trainables.spec import LocusError
from trainables.watched import watched


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "locus" / "folders"


@pytest.fixture
def root(tmp_path):
    return image_folder(tmp_path / "set", {"train": 10, "test": 2}, suffix=".bmp")


@pytest.fixture
def read(monkeypatch):
    """The names of the files that are read, all of which may be kept."""
    names, usual = [], folder_contents._read
    monkeypatch.setattr(folder_contents, "SETTLED_NS", -(10**12))
    monkeypatch.setattr(folder_contents, "_read", lambda file, whole: names.append(file.path) or usual(file, whole))
    return names


def folder_of(root):
    return Folder(path=str(root), image_size=4)


def test_images_of_the_same_size_are_another_set(root, tmp_path):
    """Re-rendered in place, with the times of before: another key, another decoded file, the new pixels."""
    before = folder_of(root)
    old = load(before, Reading(tmp_path / "data"))
    for path in root.rglob("*.bmp"):
        was = path.stat()
        picture(int(path.stem) + 100).save(path)
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
        assert path.stat().st_size == was.st_size
    after = folder_of(root)
    assert after.digest != before.digest
    assert after.decoded_name != before.decoded_name
    new = load(after, Reading(tmp_path / "data"))
    assert (new.train.images[:, 0, 0, 0] == old.train.images[:, 0, 0, 0] + 100).all()
    with pytest.raises(LocusError, match=f"must name a folder with the digest {before.digest}, got {after.digest} in"):
        load(before, Reading())


def test_a_file_is_read_once_and_again_where_it_changed(root, read):
    before, told = sorted(path.name for path in root.rglob("*")), []
    with watched(lambda *counts: told.append(counts)):
        first = folder_of(root)
        assert len(read) == 36
        assert folder_of(root) == first
    assert len(read) == 36
    assert told == [(number, 36) for number in range(1, 37)]
    path = root / "train" / "class_1" / "0015.bmp"
    was = path.stat()
    picture(200).save(path.with_name("new.bmp"))
    os.utime(path.with_name("new.bmp"), ns=(was.st_atime_ns, was.st_mtime_ns))
    path.with_name("new.bmp").replace(path)
    second = folder_of(root)
    assert second.digest != first.digest
    assert read[36:] == ["class_1/0015.bmp"]
    assert sorted(path.name for path in root.rglob("*")) == before, "nothing is written beside the images"


def test_a_change_in_place_that_keeps_size_and_time_is_seen(root, read):
    first = folder_of(root)
    path = root / "train" / "class_1" / "0015.bmp"
    was = path.stat()
    while path.stat().st_ctime_ns == was.st_ctime_ns:
        picture(200).save(path)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert folder_of(root).digest != first.digest


def test_what_changed_just_now_is_not_kept(root, cache):
    """A second change in the same tick of the clock would have the same times."""
    folder_of(root)
    assert not cache.exists()


def test_a_cache_that_is_damaged_or_of_other_code_is_read_again(root, read, cache, monkeypatch):
    first = folder_of(root)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    for place in [*rng.integers(0, len(whole), 5).tolist(), None]:
        count = len(read)
        file.write_bytes(b"" if place is None else whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert folder_of(root) == first
        assert len(read) == count + 36
        assert file.read_bytes() == whole
    monkeypatch.setattr(folder_contents, "version", lambda name: "1.0")
    folder_of(root)
    assert len(read) == count + 72


def test_a_cache_that_cannot_be_written_is_no_error(root, read, tmp_path, monkeypatch):
    first = folder_of(root)
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert folder_of(root) == first
    assert folder_of(root) == first
    assert len(read) == 3 * 36


def test_many_may_look_at_once(root, read, cache):
    with ThreadPoolExecutor(8) as pool:
        digests = [*pool.map(lambda _: folder_of(root).digest, range(16))]
    assert len({*digests}) == 1
    assert [file.suffix for file in cache.iterdir()] == [".json"]
    count = len(read)
    folder_of(root)
    assert len(read) == count


def test_a_change_between_the_look_and_the_decoding_gets_no_name(root, tmp_path, monkeypatch):
    """The decoded file of a digest holds the images of that digest alone."""
    from trainables.data import folder_torch

    spec, usual = folder_of(root), folder_torch.content

    def late(*arguments):
        values = usual(*arguments)
        for path in (root / "train").rglob("*.bmp"):
            Image.new("RGB", (40, 40)).save(path)
        return values

    monkeypatch.setattr(folder_torch, "content", late)
    with pytest.raises(LocusError, match="must stay as it is while runs read it, got a change: run the study again"):
        load(spec, Reading(tmp_path / "data"))
    assert not [*(tmp_path / "data" / "decoded").glob("*.[nt]*")]


def test_where_a_copy_lies_and_when_it_was_made_do_not_matter(root, tmp_path):
    shutil.copytree(root, tmp_path / "copy", copy_function=shutil.copyfile)
    assert folder_of(tmp_path / "copy").digest == folder_of(root).digest
