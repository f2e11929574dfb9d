"""What a probe finds in a model: named numbers and arrays, or a sentence that says why there are none.

No torch and no numpy is needed here, so that a study can name probes and a report can read what they found.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_args

from pydantic import AfterValidator, Field

from trainables.spec import in_order

if TYPE_CHECKING:
    from numpy.typing import NDArray

ProbeName = Literal[
    "direction", "distance", "similarity", "attention_distance", "attention_maps", "logit_terms", "channel_shapes",
    "projections", "image_classes", "block_channels",
]  # fmt: skip
PROBES: tuple[ProbeName, ...] = get_args(ProbeName)
"""The probes of one trained model, each computed by the file of `trainables/probes/` with its name."""

FURTHER_IMAGES = "further_images"
"""The look at a trained model that tests it on further draws of its test images. No study names it."""
DRAWN_AGAIN = ("red_green",)
"""The kinds of data whose test images a generator makes, so that further ones can be drawn."""
RIGHT_IMAGES = "right_images"
"""The look at a trained model that says which of its test images are right. No study names it."""
LOOKS = (*PROBES, FURTHER_IMAGES, RIGHT_IMAGES)
"""All that is computed from kept weights, and kept beside an answer."""
REVISIONS = dict.fromkeys(LOOKS, "1")
"""The revision of each; to be raised when it finds other numbers: what an older one found is computed again."""

ProbeNames = Annotated[
    tuple[ProbeName, ...], AfterValidator(in_order), Field(strict=False, description=f"any of {', '.join(PROBES)}")
]
"""The probes that a study names."""

When = Literal["before", "after"]
"""The model at its initial weights, or at those that it was trained to."""


@dataclass(frozen=True)
class Findings:
    """What one probe found in one model. `note`: why there is nothing, in a sentence; else empty."""

    values: Mapping[str, float] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    note: str = ""


@dataclass(frozen=True)
class Probed:
    """What one probe found in one run: in the model before its first step, and in the trained model."""

    before: Findings
    after: Findings

    def at(self, when: When) -> Findings:
        """Returns the findings before or after training."""
        return self.before if when == "before" else self.after
