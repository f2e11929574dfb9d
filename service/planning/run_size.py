"""How much each run of a study trains on, and where its images come from, in words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from search_spaces.fit import fit_words
from search_spaces.study import Edition
from trainables.data import Arrays, Folder, ImagesSpec
from trainables.data.dataset import SplitName
from trainables.recipe import Recipe


def run_size(recipes: Iterable[Recipe]) -> str:
    """The epochs and images of a run; where recipes differ, the least and the most."""
    recipes = list(recipes)
    counts = [recipe.data.image_counts for recipe in recipes]
    epochs = _range(recipe.optimizer.epochs for recipe in recipes)
    train, validation, test = (_range(getattr(one, name) for one in counts) for name in ("train", "validation", "test"))
    word = "epoch" if epochs == "1" else "epochs"
    return f"each run: {epochs} {word} of {train} training images; {validation} validation and {test} test images"


def fitted(edition: Edition) -> list[str]:
    """The sizes that follow from the images, in a sentence; nothing where the study says them."""
    size = edition.study.budgets.get(edition.budget)
    if size is None or size.fit is None:
        return []
    return [f"from images and budget follow {fit_words(edition.study.base)}; --set changes them"]


def image_sources(recipes: Iterable[Recipe]) -> list[str]:
    """Which images of each set of photographs are used, and where those of each split come from, a line a set.

    Behind it what a reader should know: where images are few, and of a folder, such as files that are not read, a
    sentence each.
    """
    sets: dict[tuple[str, str], list[ImagesSpec]] = {}
    for data in (recipe.data for recipe in recipes):
        if isinstance(data, ImagesSpec):
            sets.setdefault((data.kind, data.fingerprint), []).append(data)
    return [line for alike in sets.values() for line in _sources(alike)]


def _sources(alike: list[ImagesSpec]) -> Iterator[str]:
    one, counts = alike[0], [data.image_counts for data in alike]
    found = one.described()
    words = [
        f"{name}: {_range(getattr(count, split) for count in counts)} images {getattr(found, split)}"
        for split, name in (("train", "training"), ("validation", "validation"), ("test", "test"))
    ]
    name = one.path if isinstance(one, Arrays | Folder) else one.kind
    yield f"images of {name}, {one.outputs:,} classes in each split: {'; '.join(words)}"
    yield from _few(min(alike, key=lambda data: data.image_counts.validation))
    yield from found.remarks


FEW = 200
"""With fewer images one image is more than half a percent of an accuracy."""


def _few(data: ImagesSpec) -> Iterator[str]:
    """What one image is of a score, where few are scored, and how more may be."""
    splits: list[tuple[SplitName, str]] = [("val", "validation"), ("test", "test")]
    few = [
        f"{data.score(data.step(split), split) - data.score(0.0, split):.2g} of a score on {count} {word} images"
        for split, word in splits[: 1 if data.cross_validated else 2]
        if (count := getattr(data.image_counts, word)) < FEW
    ]
    if not few:
        return
    yield f"few images: one image is {' and '.join(few)}{_more(data)}"


def _more(data: ImagesSpec) -> str:
    """What lets more images validate or test, where few are held out to do so."""
    counts, there = data.image_counts, data.available
    validate, test = counts.validation < FEW and not there.validation, counts.test < FEW and not there.test
    ways = [
        "--set data.val_size= holds out more to validate" * validate,
        "--set data.test_size= holds out more to test" * test,
        "--set data.folds=5 validates on all in turn" * validate,
    ]
    return "".join(f"; {way}" for way in ways if way and not data.folds)


def _range(numbers: Iterable[int]) -> str:
    found = sorted(set(numbers))
    return f"{found[0]:,}" if len(found) == 1 else f"{found[0]:,} to {found[-1]:,}"
