"""Known sets, in small copies of their real formats: what is read is what was written, and damage is one sentence."""

import shutil
import tarfile
import threading
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import numpy as np
import pytest
from torchvision.datasets import CIFAR10, CIFAR100, Flowers102, OxfordIIITPet

from tests.rooms.trainables.data import pictures
from trainables.data import Cifar10, Cifar100, Digits, OxfordPets, TinyImageNet
from trainables.data import Flowers102 as Flowers
from trainables.data.class_names_torch import class_names
from trainables.data.splits_torch import Reading, download, load
from trainables.spec import LocusError


@pytest.mark.parametrize(("spec", "classes"), [(Cifar10, 10), (Cifar100, 100)])
def test_cifar_keeps_its_labels_and_pixels(tmp_path, monkeypatch, spec, classes):
    pictures.cifar(tmp_path, monkeypatch, spec().kind, train=20 * classes, test=2 * classes)
    splits = load(spec(), Reading(tmp_path))
    assert [len(part) for part in (splits.train, splits.validation, splits.test)] == [
        18 * classes, 2 * classes, 2 * classes,
    ]  # fmt: skip
    for part in (splits.train, splits.validation, splits.test):
        assert (part.images[:, 0, 0, 0] % classes == part.targets).all() or classes == 100
        assert part.images.shape[1:] == (3, 32, 32)
        assert np.bincount(part.targets).tolist() == [len(part) // classes] * classes
    assert class_names(spec(), tmp_path) == class_names(spec(), None) == tuple(map(str, range(classes)))


def test_flowers_have_splits_of_their_own(tmp_path, monkeypatch):
    pictures.flowers(tmp_path, monkeypatch)
    splits = load(Flowers(image_size=8), Reading(tmp_path))
    for first, part in zip((1, 103, 205), (splits.train, splits.validation, splits.test), strict=True):
        assert sorted(part.targets.tolist()) == [*range(102)]
        expected = (first + part.targets) % 256
        assert (part.images[:, 0, 4, 4].int() - expected).abs().max() <= 3  # JPEG rounds
    names = class_names(Flowers(), None)
    assert (len({*names}), names[0], names[101]) == (102, "pink primrose", "blackberry lily")


def test_pets_are_read_by_breed(tmp_path, monkeypatch):
    pictures.pets(tmp_path, monkeypatch)
    splits = load(OxfordPets(image_size=8, val_size=37), Reading(tmp_path))
    for part in (splits.train, splits.validation, splits.test):
        assert (part.images[:, 0, 4, 4].int() - part.targets - 1).abs().max() <= 3
        assert len(part.targets.unique()) == 37
    assert class_names(OxfordPets(), tmp_path) == tuple(f"Breed{label} Test" for label in range(1, 38))
    assert class_names(OxfordPets(), tmp_path / "gone") == tuple(map(str, range(37)))


def test_tiny_imagenet_is_read_by_its_lists(tmp_path, monkeypatch):
    pictures.tiny_imagenet(tmp_path, monkeypatch)
    splits = load(TinyImageNet(image_size=8, val_size=200), Reading(tmp_path))
    for part in (splits.train, splits.validation, splits.test):
        assert (part.images[:, 0, 4, 4].int() - part.targets).abs().max() <= 3
        assert len(part.targets.unique()) == 200
    assert class_names(TinyImageNet(), tmp_path)[:2] == ("n00000000", "n00000001")


def test_the_fingerprint_is_the_published_checksum(subtests):
    for spec, published in [
    (Cifar10(), CIFAR10.tgz_md5), (Cifar100(), CIFAR100.tgz_md5), (Flowers(), Flowers102._file_dict["image"][1]),
    (OxfordPets(), OxfordIIITPet._RESOURCES[0][1]),
]:  # fmt: skip
        with subtests.test(f"{spec}, {published}"):
            assert spec.fingerprint == published


@pytest.mark.parametrize("spec", [Cifar10(), Cifar100(), Flowers(), OxfordPets(), TinyImageNet()], ids=lambda s: s.kind)
@pytest.mark.parametrize("empty", [False, True], ids=["no folder", "an empty folder"])
def test_a_set_that_is_not_there_says_where_to_put_it(tmp_path, spec, empty):
    if empty:
        (tmp_path / spec.FOLDER).mkdir()
    with pytest.raises(LocusError, match=f"data.kind {spec.kind} needs its images, whole, in .*{spec.FOLDER}"):
        load(spec, Reading(tmp_path))
    with pytest.raises(LocusError, match="--download"):
        load(spec, Reading(None))


def test_a_changed_file_of_cifar_is_refused(tmp_path, monkeypatch):
    pictures.cifar(tmp_path, monkeypatch, "cifar10", train=200, test=20)
    path = tmp_path / "cifar-10-batches-py" / "data_batch_3"
    path.write_bytes(path.read_bytes().replace(b"\x02", b"\x03", 1))
    with pytest.raises(LocusError, match="whole"):
        load(Cifar10(), Reading(tmp_path))


@contextmanager
def serving(folder):
    """A server of a folder, on this machine alone."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(SimpleHTTPRequestHandler, directory=folder))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_a_missing_set_is_fetched(tmp_path, monkeypatch):
    """From a server, by torchvision's own download, which compares the archive with its published checksum."""
    pictures.cifar(tmp_path / "web", monkeypatch, "cifar10", train=200, test=20)
    archive = tmp_path / "web" / CIFAR10.filename
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(tmp_path / "web" / CIFAR10.base_folder, CIFAR10.base_folder)
    monkeypatch.setattr(CIFAR10, "tgz_md5", pictures.md5(archive))
    assert "needs its images" in Cifar10().missing(tmp_path / "data")
    with serving(tmp_path / "web") as address:
        monkeypatch.setattr(CIFAR10, "url", f"{address}/{archive.name}")
        download(Cifar10(), tmp_path / "data")
    assert Cifar10().missing(tmp_path / "data") == ""
    assert len(load(Cifar10(), Reading(tmp_path / "data")).train) == 180
    shutil.rmtree(tmp_path / "data" / CIFAR10.base_folder)
    assert Cifar10().missing(tmp_path / "data") == ""  # decoded is enough
    assert Cifar10(train_size=10).missing(tmp_path / "data")


def test_what_cannot_be_fetched_is_one_sentence(tmp_path, monkeypatch):
    with serving(tmp_path) as address:
        monkeypatch.setattr(CIFAR10, "url", f"{address}/nothing.tar.gz")
        with pytest.raises(LocusError, match="cifar10 could not be fetched: "):
            download(Cifar10(), tmp_path / "data")
    with pytest.raises(LocusError, match="must be that of a known set to be fetched, got 'digits'"):
        download(Digits(), tmp_path / "data")


def test_a_set_with_images_missing_is_refused(tmp_path, monkeypatch):
    pictures.tiny_imagenet(tmp_path, monkeypatch)
    next((tmp_path / "tiny-imagenet-200" / "train" / "n00000007" / "images").iterdir()).unlink()
    with pytest.raises(LocusError, match=r"must be \{'train': 400, 'test': 400\}, got \{'train': 399, 'test': 400\}"):
        load(TinyImageNet(image_size=8), Reading(tmp_path))
