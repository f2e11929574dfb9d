"""The list of data sets: a data set is one pair of files of this folder and one line here.

`x.py` holds the spec, a `DatasetSpec`: which images, which task, how large the splits are. `x_torch.py` beside it makes
or reads the images. Where they are made, `arrays(spec)` returns the images and targets of each split, and `MAX_VALUE`
is the value of white; where they are read, `load(spec, folder)` returns the splits. A data set in a user's own file is
one class (`DatasetSpec`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.data.arrays import Arrays
from trainables.data.cifar import Cifar10, Cifar100
from trainables.data.custom import OwnData
from trainables.data.dataset import DatasetSpec, ImageCounts, MeanStd
from trainables.data.digits import Digits
from trainables.data.flowers102 import Flowers102
from trainables.data.folder import Folder
from trainables.data.images import ImagesSpec
from trainables.data.oxford_pets import OxfordPets
from trainables.data.red_green import RedGreen
from trainables.data.tiny_imagenet import TinyImageNet
from trainables.own import one_of

LISTED: tuple[type[DatasetSpec], ...] = (
    RedGreen,
    Digits,
    Cifar10,
    Cifar100,
    Flowers102,
    OxfordPets,
    TinyImageNet,
    Folder,
    Arrays,
)
"""Every data set, in the order of messages."""

KINDS = tuple(cls.model_fields["kind"].default for cls in LISTED)
"""What a recipe calls them."""

if TYPE_CHECKING:
    Data = DatasetSpec
else:
    Data = one_of(LISTED, OwnData)

__all__ = [
    "KINDS",
    "LISTED",
    "Arrays",
    "Cifar10",
    "Cifar100",
    "Data",
    "DatasetSpec",
    "Digits",
    "Flowers102",
    "Folder",
    "ImageCounts",
    "ImagesSpec",
    "MeanStd",
    "OwnData",
    "OxfordPets",
    "RedGreen",
    "TinyImageNet",
]  # fmt: skip
