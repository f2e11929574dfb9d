"""The list of data sets: a data set is one pair of files of this folder and one line here.

`x.py` holds the spec, a `DatasetSpec`: which images, which task, how large the splits are. `x_torch.py` beside it makes
or reads the images: `arrays(spec)` returns the images and targets of each split, `MAX_VALUE` is the value of white.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainables.data.dataset import DatasetSpec, MeanStd
from trainables.data.digits import Digits
from trainables.data.red_green import RedGreen

Data = Annotated[RedGreen | Digits, Field(discriminator="kind")]
"""Any data set, chosen by its kind."""

__all__ = ["Data", "DatasetSpec", "Digits", "MeanStd", "RedGreen"]
