"""The list of data sets: a data set is one pair of files of this folder and one line here.

`x.py` says which images, with the task and the splits; `x_torch.py` beside it makes or reads them.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from trainables.data.digits import Digits
from trainables.data.red_green import RedGreen

Data = Annotated[RedGreen | Digits, Field(discriminator="kind")]
"""Any data set, told apart by its kind."""

__all__ = ["Data", "Digits", "RedGreen"]
