"""A data set from a user's own file: a spec that also makes or reads its images."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, get_args

from pydantic import ConfigDict, model_validator

from trainables.data.dataset import DatasetSpec, ImageCounts, Metric
from trainables.own import OwnSpec
from trainables.spec import Spec, SpecError

WHITE = 255
"""The value of white where a class does not declare `max_value`."""


class OwnData(OwnSpec, DatasetSpec):
    """A data set from a user's file: its kind is "file.py:Class", and `source` is the text of that file.

    Raises: SpecError if the class does not declare what its images are.
    """

    model_config = ConfigDict(extra="allow")

    NODE: ClassVar[str] = "data"
    BASE: ClassVar[type[Spec]] = DatasetSpec

    @model_validator(mode="after")
    def _declares(self) -> OwnData:
        """A mistake in what the class declares is found before anything is trained."""
        spec = self.spec
        if not callable(getattr(spec, "arrays", None)):
            raise SpecError(f"{self.label} in {self.file} must have a method arrays(self), got none")
        kinds = get_args(Metric)
        metric = self._declared("metric", f"one of {', '.join(kinds)}", lambda value: value in kinds)
        least = 1 if metric == "r2" else 2
        self._declared("outputs", f"a whole number from {least} on", lambda value: _counts([value], 1, least))
        self._declared("size", "the channels, rows and columns of an image", lambda value: _counts(value, 3))
        self._declared("image_counts", "three positive numbers of images", lambda value: _counts(value, 3))
        self.fingerprint  # noqa: B018 (read now, as a study is planned with it)
        if type(spec).chance is not DatasetSpec.chance or type(spec).chances is not DatasetSpec.chances:
            raise SpecError(
                f"{self.label} in {self.file} must declare what guessing scores as metric_chance, got chance (which "
                "locus computes from it)"
            )
        self._declared("metric_chance", "a number", lambda value: isinstance(value, float | int))
        if not _counts([self.max_value], 1) or self.max_value > WHITE:
            raise SpecError(f"{self.label}.max_value in {self.file} must be from 1 to {WHITE}, got {self.max_value!r}")
        return self

    def _declared(self, name: str, must: str, holds: Any) -> Any:
        """Returns what the class declares under a name. Raises: SpecError if it declares nothing, or what cannot be."""
        try:
            value = getattr(self.spec, name)
        except (NotImplementedError, AttributeError) as error:
            why = f" ({error})" if str(error) else ""
            raise SpecError(f"{self.label} in {self.file} must declare {name}, {must}, got none{why}") from None
        except OSError as error:  # of the files that it reads
            raise SpecError(f"{self.label}.{name} in {self.file} must be {must}, got {error}") from None
        if not holds(value):
            raise SpecError(f"{self.label}.{name} in {self.file} must be {must}, got {value!r}")
        return value

    @property
    def file(self) -> str:
        return self.kind.partition(":")[0]

    @property
    def spec(self) -> DatasetSpec:
        """The user's own spec, an instance of the class that `kind` names."""
        made: DatasetSpec = self.made()
        return made

    @property
    def image_counts(self) -> ImageCounts:
        return ImageCounts(*self.spec.image_counts)

    @property
    def outputs(self) -> int:
        return self.spec.outputs

    @property
    def metric(self) -> Metric:
        return self.spec.metric

    @property
    def metric_chance(self) -> float:
        return self.spec.metric_chance

    @property
    def size(self) -> tuple[int, int, int]:
        channels, rows, columns = self.spec.size
        return channels, rows, columns

    @cached_property
    def fingerprint(self) -> str:
        """What the class says of its files, read once: so all runs of a study are of the same images."""
        fingerprint: str = self._declared("fingerprint", "a string", lambda value: isinstance(value, str))
        return fingerprint

    @property
    def max_value(self) -> int:
        """The value of white in the user's arrays."""
        value: int = getattr(self.spec, "max_value", WHITE)
        return value

    def missing(self, folder: Path) -> str:
        return self.spec.missing(folder)

    def fit_patch(self, side: int) -> None:
        self.spec.fit_patch(side)


def _counts(values: Any, count: int, least: int = 1) -> bool:
    """Returns whether there are so many whole numbers, each from `least` on."""
    if not isinstance(values, tuple | list) or len(values) != count:
        return False
    return all(isinstance(value, int) and not isinstance(value, bool) and value >= least for value in values)
