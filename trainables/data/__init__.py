"""The list of data sets: a data set is one pair of files of this folder and one line here.

`x.py` holds the spec, a `DatasetSpec`: which images, which task, how large the splits are. `x_torch.py` beside it makes
or reads the images. Where they are made, `arrays(spec)` returns the images and targets of each split, and `MAX_VALUE`
is the value of white; where they are read, `load(spec, folder)` returns the splits.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainables.data.cifar import Cifar10, Cifar100
from trainables.data.dataset import DatasetSpec, ImageCounts, MeanStd
from trainables.data.digits import Digits
from trainables.data.flowers102 import Flowers102
from trainables.data.folder import Folder
from trainables.data.images import ImagesSpec
from trainables.data.oxford_pets import OxfordPets
from trainables.data.red_green import RedGreen
from trainables.data.tiny_imagenet import TinyImageNet

Data = Annotated[
    RedGreen | Digits | Cifar10 | Cifar100 | Flowers102 | OxfordPets | TinyImageNet | Folder,
    Field(discriminator="kind"),
]
"""Any data set, chosen by its kind."""

__all__ = [
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
    "OxfordPets",
    "RedGreen",
    "TinyImageNet",
]  # fmt: skip
