"""The names of the classes of a data set, in the order of a model's outputs."""

from __future__ import annotations

from pathlib import Path

from torchvision import datasets

from trainables.data import Cifar10, Cifar100, Data, Flowers102, Folder, OxfordPets, TinyImageNet


def class_names(spec: Data, folder: Path | None) -> tuple[str, ...]:
    """Returns the names of the classes; their numbers where the set has no names, or is not there any more.

    Empty if the targets are no classes. A folder's names are those that it had when it was read; where they are not
    known they are "output 0", "output 1", ..., as its classes may be called by numbers. `folder`: that of all data.
    """
    if spec.metric == "r2":
        return ()
    if isinstance(spec, Folder):
        return spec.names or tuple(f"output {number}" for number in range(spec.outputs))
    try:
        names = _names(spec, folder)
    except (RuntimeError, OSError):  # it is gone or damaged: the model is there all the same
        names = []
    return tuple(names if len(names) == spec.outputs else map(str, range(spec.outputs)))


def _names(spec: Data, folder: Path | None) -> list[str]:
    """Returns the names of a set that has some, as those who opened its images numbered the classes."""
    if isinstance(spec, Flowers102):
        return list(datasets.Flowers102.classes)
    if folder is None:
        return []
    if isinstance(spec, Cifar10 | Cifar100):
        reader = datasets.CIFAR10 if isinstance(spec, Cifar10) else datasets.CIFAR100
        return list(reader(folder, train=False).classes)
    if isinstance(spec, OxfordPets):
        return list(datasets.OxfordIIITPet(folder, split="test").classes)
    if isinstance(spec, TinyImageNet):
        return sorted((folder / spec.FOLDER / "wnids.txt").read_text(encoding="utf-8").split())
    return []
