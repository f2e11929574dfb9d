"""Small sets of images, written in the formats of the real ones."""

import hashlib
import pickle
from pathlib import Path

import numpy as np
from PIL import Image
from scipy.io import savemat
from torchvision.datasets import CIFAR10, CIFAR100, Flowers102

from trainables.data import Cifar10, Cifar100, ImageCounts, OxfordPets, TinyImageNet
from trainables.data import Flowers102 as Flowers


def picture(number: int, width: int = 12, height: int = 9) -> Image.Image:
    """A picture of which the top left pixel has the number, in one of JPEG's flat colors."""
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[..., 0], pixels[..., 1], pixels[..., 2] = number % 256, 40 * (number // 256), 128
    return Image.fromarray(pixels)


def torn(path: Path) -> None:
    """A JPEG of which the second half is missing."""
    picture(25, 300, 300).save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])


def image_folder(root: Path, splits: dict[str, int], classes: int = 3, suffix: str = ".png") -> Path:
    """Folders `<split>/<class>/` with so many pictures each, numbered throughout."""
    number = 0
    for split, count in splits.items():
        for label in range(classes):
            folder = root / split / f"class_{label}"
            folder.mkdir(parents=True)
            for _ in range(count):
                picture(number).save(folder / f"{number:04d}{suffix}")
                number += 1
    return root


def cifar(root: Path, monkeypatch, kind: str, train: int, test: int) -> None:
    """CIFAR's pickles, with torchvision's checksums replaced by theirs."""
    reader, spec = {"cifar10": (CIFAR10, Cifar10), "cifar100": (CIFAR100, Cifar100)}[kind]
    classes = {"cifar10": 10, "cifar100": 100}[kind]
    folder = root / reader.base_folder
    folder.mkdir(parents=True)
    labels = "labels" if kind == "cifar10" else "fine_labels"
    for files, count, field in ((reader.train_list, train, "train_list"), (reader.test_list, test, "test_list")):
        checksums = []
        for part, (name, _) in enumerate(files):
            numbers = np.arange(part, count, len(files))
            data = np.repeat(numbers % 256, 3072).reshape(-1, 3072).astype(np.uint8)
            (folder / name).write_bytes(pickle.dumps({"data": data, labels: [int(n) % classes for n in numbers]}))
            checksums.append([name, md5(folder / name)])
        monkeypatch.setattr(reader, field, checksums)
    meta = folder / reader.meta["filename"]
    meta.write_bytes(pickle.dumps({reader.meta["key"]: [str(label) for label in range(classes)]}))
    monkeypatch.setattr(reader, "meta", {**reader.meta, "md5": md5(meta)})
    monkeypatch.setattr(spec, "AVAILABLE", ImageCounts(train, 0, test))


def flowers(root: Path, monkeypatch, each: int = 1) -> None:
    """The JPEGs and MATLAB files of Oxford 102 Flower, `each` image of each class and split."""
    folder = root / "flowers-102"
    (folder / "jpg").mkdir(parents=True)
    count = 3 * each * 102
    for number in range(1, count + 1):
        picture(number).save(folder / "jpg" / f"image_{number:05d}.jpg")
    labels = (np.arange(count) % 102) + 1
    savemat(folder / "imagelabels.mat", {"labels": labels[None]})
    ids = {name: np.arange(part * each * 102, (part + 1) * each * 102)[None] + 1
           for part, name in enumerate(("trnid", "valid", "tstid"))}  # fmt: skip
    savemat(folder / "setid.mat", ids)
    files = {name: (file, md5(folder / file) if name != "image" else code)
             for name, (file, code) in Flowers102._file_dict.items()}  # fmt: skip
    monkeypatch.setattr(Flowers102, "_file_dict", files)
    monkeypatch.setattr(Flowers, "AVAILABLE", ImageCounts(*(each * 102,) * 3))


def pets(root: Path, monkeypatch, each: int = 3) -> None:
    """The JPEGs and lists of Oxford-IIIT Pet, `each` image of each breed and split."""
    folder = root / "oxford-iiit-pet"
    (folder / "images").mkdir(parents=True)
    (folder / "annotations").mkdir()
    for split in ("trainval", "test"):
        lines = []
        for label in range(1, 38):
            for number in range(each):
                name = f"Breed{label}_{split}_{number}"
                picture(label).save(folder / "images" / f"{name}.jpg")
                lines.append(f"{name} {label} {1 + label % 2} 1")
        (folder / "annotations" / f"{split}.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(OxfordPets, "AVAILABLE", ImageCounts(37 * each, 0, 37 * each))


def tiny_imagenet(root: Path, monkeypatch, each: int = 2) -> None:
    """The layout of tiny-imagenet-200.zip, `each` image of each class and split."""
    folder = root / "tiny-imagenet-200"
    (folder / "val" / "images").mkdir(parents=True)
    classes = [f"n{number:08d}" for number in range(200)]
    (folder / "wnids.txt").write_text("\n".join(reversed(classes)) + "\n")
    lines = []
    for label, name in enumerate(classes):
        (folder / "train" / name / "images").mkdir(parents=True)
        for number in range(each):
            picture(label).save(folder / "train" / name / "images" / f"{name}_{number}.JPEG", format="JPEG")
            picture(label).save(folder / "val" / "images" / f"val_{label}_{number}.JPEG", format="JPEG")
            lines.append(f"val_{label}_{number}.JPEG\t{name}\t0\t0\t9\t9")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    monkeypatch.setattr(TinyImageNet, "AVAILABLE", ImageCounts(200 * each, 0, 200 * each))


def md5(path: Path) -> str:
    return hashlib.md5(path.read_bytes()).hexdigest()
