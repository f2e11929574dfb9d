"""The names of the classes of a data set, in the order of a model's outputs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
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
    names: Sequence[str] = ()
    with suppress(RuntimeError, OSError):  # it is gone or damaged: the model is there all the same
        match spec:
            case Flowers102():
                names = datasets.Flowers102.classes
            case Cifar10() if folder is not None:
                names = datasets.CIFAR10(folder, train=False).classes
            case Cifar100() if folder is not None:
                names = datasets.CIFAR100(folder, train=False).classes
            case OxfordPets() if folder is not None:
                names = datasets.OxfordIIITPet(folder, split="test").classes
            case TinyImageNet() if folder is not None:
                names = sorted((folder / spec.FOLDER / "wnids.txt").read_text(encoding="utf-8").split())
    return tuple(names if len(names) == spec.outputs else map(str, range(spec.outputs)))
