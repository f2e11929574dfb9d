"""Images that Python hands over: which file they become, and what is refused."""

import os

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import TensorDataset

import service
from service import api
from service.own_images import image_values
from trainables.data import Digits, Folder
from trainables.data.splits_torch import load
from trainables.spec import SpecError

IMAGES = np.random.default_rng(0).integers(0, 256, (30, 8, 8, 3), np.uint8)
LABELS = np.arange(30) % 3


class Pictures:
    """A Dataset of images of Pillow, some in a palette, with a label of several types."""

    def __init__(self, images=IMAGES, labels=LABELS):
        self.images, self.labels = images, labels

    def __len__(self):
        return len(self.images)

    def __getitem__(self, number):
        image = Image.fromarray(self.images[number])
        label = [int, np.int64, torch.tensor][number % 3](self.labels[number])
        return (image.quantize(256) if number == 7 else image), label


def test_arrays_and_datasets_become_one_file_by_their_content(tmp_path, monkeypatch):
    home, folder = str(tmp_path), tmp_path / "data"
    tensors = TensorDataset(torch.from_numpy(IMAGES.transpose(0, 3, 1, 2).copy()), torch.from_numpy(LABELS))
    sixty_four = IMAGES[7].reshape(-1, 3)
    assert len(np.unique(sixty_four, axis=0)) <= 256, "so the palette holds every color"
    found = [image_values(data, home, {}, "set") for data in ((IMAGES, LABELS), tensors, Pictures())]
    (file,) = folder.iterdir()
    assert found == [{"data.kind": "arrays", "data.path": str(file)}] * 3
    before = file.stat().st_mtime_ns
    os.utime(file, ns=(1, 1))
    edition = api.resolve("encodings", home=home, data=(IMAGES, LABELS))
    assert file.stat().st_mtime_ns == 1 != before
    assert edition.id.startswith(f"encodings@cpu~{file.stem}-")
    data = edition.study.base.data
    loaded = load(data)
    there = {
        bytes(image.numpy()): int(label) for image, label in zip(loaded.train.images, loaded.train.targets, strict=True)
    }
    known = {bytes(image.transpose(2, 0, 1).copy()): label for image, label in zip(IMAGES, LABELS, strict=True)}
    assert there.items() <= known.items()
    assert len(there) == 24
    file.write_bytes(file.read_bytes()[:-300])  # a disk that was full
    image_values((IMAGES, LABELS), home, {}, "set")
    assert load(data).test.targets.tolist() == loaded.test.targets.tolist()

    for wrong, said in (
        (IMAGES, "got ndarray$"),
        ([(IMAGES[0], 0, 1)], "got list of other entries"),
        ([(IMAGES[0], 0), (IMAGES[0, :4], 1)], r"must have one size, got \(4, 8, 3\) and \(8, 8, 3\)"),
        ([(IMAGES[0], 0), (IMAGES[1], [1, 2])], "labels must be integers"),
        ([(IMAGES[0], 0.0), (IMAGES[1], 1.7)], "labels must be 2 integers.* got float64"),
        ([(IMAGES[0], {"box": 1}), (IMAGES[1], {"box": 2})], "labels must be 2 integers.* got object"),
        ([(Image.new("F", (8, 8)), 0), (Image.new("F", (8, 8)), 1)], "images of 8 bits, got Pillow's mode F"),
        (3, r"must be a folder of images, an \.npz file, a known set, .* got int$"),
    ):
        with pytest.raises(SpecError, match=said):
            api.resolve("encodings", home=home, data=wrong)
    with pytest.raises(SpecError, match=r"set must leave out data\.kind, as data says it"):
        api.resolve("encodings", home=home, data=(IMAGES, LABELS), set={"data.kind": "digits"})
    monkeypatch.setattr("service.execution.jobs.submit", None)
    for verb in (service.submit, service.run):
        with pytest.raises(SpecError, match="known set that the cluster sees, where a study is submitted, got tuple"):
            verb("encodings", address="http://head:8265", data=(IMAGES, LABELS))
    with pytest.raises(SpecError, match="where a study is submitted, got TensorDataset"):
        service.ablate({"a": {}}, baseline="a", address="http://head:8265", data=tensors, home=f"{home}/other")
    assert not (tmp_path / "other").exists()
    with pytest.raises(SpecError, match="data must be left out beside arms@base"):
        api.resolve(service.Study("arms", "?", service.Recipe(), service.Ablation({"a": {}}, "a")).at(), data=tensors)


def test_a_spec_of_images_is_told_the_word_for_them(tmp_path):
    for label in ("a", "b"):
        (tmp_path / label).mkdir()
        for number in range(20):
            Image.fromarray(IMAGES[number]).save(tmp_path / label / f"{number}.png")
    for spec, word in ((Folder(path=tmp_path), str(tmp_path)), (Digits(), "digits")):
        with pytest.raises(
            SpecError, match=rf"^data must be .*, got a {type(spec).__name__}; for these, data='{word}'$"
        ):
            image_values(spec, str(tmp_path), {}, "set")


def test_labels_of_another_form_are_told_what_makes_them_numbers_of_classes(tmp_path):
    numbers, first = "np.unique(labels, return_inverse=True)[1]", np.eye(3)[LABELS]
    for labels, how in (
        (np.array(["cat", "dog", "emu"])[LABELS], numbers),
        (LABELS + 1, numbers),
        (LABELS > 0, numbers),
        (LABELS.astype(float), "labels.astype(int)"),
        (first, "labels.argmax(axis=1)"),
        (first.astype(int), "labels.argmax(axis=1)"),
        (LABELS[:, None], "labels[:, 0]"),
        (LABELS - 1, ""),  # -1 may say that nobody knows the class
        (LABELS * 0, ""),
        (LABELS / 2, ""),
        (np.where(LABELS == 0, np.nan, LABELS), ""),
        (2 * first, ""),
        (LABELS[:-1], ""),
    ):
        with pytest.raises(SpecError) as caught:
            image_values((IMAGES, labels), str(tmp_path), {}, "set")
        assert str(caught.value).startswith("labels must be ")
        assert str(caught.value).partition("; ")[2] == (how and f"{how} makes them so"), labels
        if how:
            made = eval(how, {"np": np, "labels": labels})
            assert image_values((IMAGES, made), str(tmp_path), {}, "set")


def test_masks_and_swapped_arrays_are_refused(tmp_path):
    for data, said in (
        ((IMAGES, np.ma.array(LABELS, mask=LABELS == 1)), "data must be whole arrays, got masked ones"),
        ((np.ma.array(IMAGES, mask=IMAGES > 250), LABELS), "data must be whole arrays, got masked ones"),
        ((LABELS, IMAGES), r"data must be \(images, labels\), got labels first"),
    ):
        with pytest.raises(SpecError, match=said):
            image_values(data, str(tmp_path), {}, "set")
    assert image_values((IMAGES, np.ma.array(LABELS)), str(tmp_path), {}, "set")
