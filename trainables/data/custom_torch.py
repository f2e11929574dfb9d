"""Loads a data set of the user's own: calls its method `arrays` and checks every array before anything is trained.

A wrong array must be a sentence here, and no error in the middle of a training, nor numbers that mean nothing.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from trainables.data.custom import OwnData
from trainables.data.dataset import luck
from trainables.data.splits_torch import SPLITS, Reading, Split, Splits
from trainables.spec import SpecError


def load(spec: OwnData, reading: Reading) -> Splits:
    """Returns the splits of a user's data set; its images lie in no folder of ours.

    Raises: SpecError for arrays that are not what the class declares, or that differ from call to call; and for files
    that have changed since the spec was made.
    Cost: `arrays` runs twice, because every run, every worker and every start again must see the same images.
    """
    _require_planned(spec)
    first = digest_of(_checked_arrays(spec))
    arrays = _checked_arrays(spec)
    if digest_of(arrays) != first:
        must = "the same arrays each time: draw them from a generator with a seed of your own"
        raise SpecError(f"{spec.label}.arrays in {spec.file} must return {must}, got others the second time")
    _require_planned(spec)
    kind = np.float64 if spec.metric == "r2" else np.int64
    splits = []
    for name in SPLITS:
        images, targets = arrays[name]
        images = np.require(images, requirements=["C", "W"])  # torch wants memory without gaps that can be written
        splits.append(Split(torch.from_numpy(images), torch.from_numpy(targets.astype(kind)), spec.max_value))
    return Splits(*splits)


def _require_planned(spec: OwnData) -> None:
    """Requires that the class says of its files what it said when the run got its key."""
    if (now := spec.spec.fingerprint) != spec.fingerprint:
        must = f"{spec.fingerprint!r}, as when the study was planned"
        raise SpecError(f"{spec.label}.fingerprint in {spec.file} must be {must}, got {now!r}; run the study again")


def digest_of(arrays: Mapping[str, tuple[NDArray[Any], NDArray[Any]]]) -> str:
    """Returns the SHA-256 of all images and targets."""
    text = hashlib.sha256()
    for name in SPLITS:
        for array in arrays[name]:
            text.update(f"{name} {array.dtype} {array.shape}\n".encode())
            text.update(np.ascontiguousarray(array).data)
    return text.hexdigest()


def _checked_arrays(spec: OwnData) -> dict[str, tuple[NDArray[Any], NDArray[Any]]]:
    declared: Any = spec.spec
    arrays = declared.arrays()
    must = f"{spec.label}.arrays in {spec.file} must return"
    if not isinstance(arrays, Mapping) or set(arrays) != set(SPLITS):
        got = ", ".join(map(str, arrays)) if isinstance(arrays, Mapping) else type(arrays).__name__
        raise SpecError(f"{must} {{'train': ..., 'validation': ..., 'test': ...}}, got {got}")
    for name, count in zip(SPLITS, spec.image_counts, strict=True):
        pair = arrays[name]
        if not isinstance(pair, tuple | list) or [type(array) for array in pair] != [np.ndarray] * 2:
            inside = ", ".join(type(array).__name__ for array in pair) if isinstance(pair, tuple | list) else ""
            got = f"{type(pair).__name__} of {inside}" if inside else type(pair).__name__
            raise SpecError(f"{must} two numpy arrays for {name!r}, images and targets, got {got}")
        fault = _fault_of_images(spec, count, pair[0]) or _fault_of_targets(spec, name, count, pair[1])
        if fault is not None:
            raise SpecError(f"{must} {fault[0]} of {name!r} {fault[1]}, got {fault[2]}")
    return {name: (arrays[name][0], arrays[name][1]) for name in SPLITS}


Fault = tuple[str, str, object]
"""What is wrong: which array, what it must be, what it is."""


def _fault_of_images(spec: OwnData, count: int, images: NDArray[Any]) -> Fault | None:
    shape = (count, *spec.size)
    if images.dtype != np.uint8:
        return "images", "of type uint8", images.dtype
    if images.shape != shape:
        return "images", f"of shape {shape}, as image_counts and size declare", images.shape
    if images.max() > spec.max_value:
        return "images", f"with values up to max_value ({spec.max_value})", images.max()
    return None


def _fault_of_targets(spec: OwnData, name: str, count: int, targets: NDArray[Any]) -> Fault | None:
    """Returns what is wrong with the targets of a split: labels of classes, or numbers where the metric is R^2.

    Of uneven classes: a model that always gives one answer must not pass for one that has learned something.
    """
    labels = spec.metric != "r2"
    kinds, numbers = ("iu", "integers") if labels else ("f", "floats")
    shape = (count,) if labels else (count, spec.outputs)
    if targets.dtype.kind not in kinds:
        return "targets", f"of {numbers}, as metric is {spec.metric!r}", targets.dtype
    if targets.shape != shape:
        return "targets", f"of shape {shape}, as image_counts and outputs declare", targets.shape
    if not np.isfinite(targets).all():
        return "targets", "that are finite", "NaN or infinity"
    if labels and not (targets.min() >= 0 and targets.max() < spec.outputs):
        return "targets", f"from 0 to {spec.outputs - 1}", f"{targets.min()} to {targets.max()}"
    if spec.metric == "accuracy" and name != "train":
        share, chance = np.bincount(targets).max() / len(targets), spec.metric_chance
        if share > chance + luck(chance, len(targets)):
            must = f"of which at most {chance:.3g} are of one class, as guessing scores that (metric_chance)"
            mend = f"declare metric_chance = {math.ceil(share * 1000) / 1000:g}, or the metric balanced_accuracy"
            return "targets", must, f"{share:.3g}: {mend}"
    if not labels and name != "train" and not np.ptp(targets, axis=0).all():
        return "targets", "that differ, because R^2 of equal numbers is not defined", "equal ones"
    return None
