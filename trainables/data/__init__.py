"""The list of data sets: each is a pair of files of this folder, or a class of `known_sets.py`, and has its name here.

`x.py` holds the spec, a `DatasetSpec`: which images, which task, how large the splits are. `x_torch.py` beside it makes
or reads the images. Where they are made, `arrays(spec)` returns the images and targets of each split, and `MAX_VALUE`
is the value of white; where they are read, `load(spec, folder)` returns the splits. A data set in a user's own file is
one class (`DatasetSpec`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trainables.data.arrays import Arrays as Arrays
from trainables.data.custom import OwnData as OwnData
from trainables.data.dataset import DatasetSpec as DatasetSpec
from trainables.data.dataset import ImageCounts as ImageCounts
from trainables.data.dataset import MeanStd as MeanStd
from trainables.data.digits import Digits as Digits
from trainables.data.folder import Folder as Folder
from trainables.data.images import ImagesSpec as ImagesSpec
from trainables.data.known_sets import Cifar10 as Cifar10
from trainables.data.known_sets import Cifar100 as Cifar100
from trainables.data.known_sets import Flowers102 as Flowers102
from trainables.data.known_sets import OxfordPets as OxfordPets
from trainables.data.known_sets import TinyImageNet as TinyImageNet
from trainables.data.red_green import RedGreen as RedGreen
from trainables.own import one_of

LISTED: tuple[type[DatasetSpec], ...] = (
    RedGreen, Digits, Cifar10, Cifar100, Flowers102, OxfordPets, TinyImageNet, Folder, Arrays,
)  # fmt: skip
"""Every data set, in the order of messages."""

KINDS = tuple(cls.model_fields["kind"].default for cls in LISTED)
"""What a recipe calls them."""

if TYPE_CHECKING:
    Data = DatasetSpec
else:
    Data = one_of(LISTED, OwnData)
