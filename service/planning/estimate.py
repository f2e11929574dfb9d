"""What a study would train: what is there already, what is missing and why, how much time and memory it takes.

It only reads files. The time comes from the epochs of earlier answers; it is unknown before the first one.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from search_spaces.fit import fit_words
from search_spaces.study import Edition
from search_spaces.words import plural
from service.planning.forecast import EpochTimes, Forecast, run_time
from service.planning.placement import Placement
from service.planning.runs_ahead import known_runs, known_trials, lost_answers, most_trials, unproposed
from service.planning.search.stopping import saved_images
from service.planning.work_estimate import RunWork, WorkEstimate, work_rows
from service.storage.history import History
from service.storage.outcomes import Outcomes
from trainables.data import Arrays, Folder, ImagesSpec
from trainables.data.augment import Mixing
from trainables.data.dataset import SplitName
from trainables.recipe import FromTimm, Recipe
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.cost import estimate_cost

LOOKED_AT = 60
"""How many earlier answers are read for the time of an epoch."""


START_S = 11.0
"""What a study takes beside its epochs: the start and the end of Ray, and workers that import torch and timm."""


def estimate_work(
    history: History, outcomes: Outcomes, placement: Placement, codes: CodeDigests, *, adopt: bool = False
) -> WorkEstimate:
    """The plan of a study in its present state. `adopt`: answers of older code count.

    Runs whose answers are lost fail in this history, as they will in the driver's.
    """
    for lost in lost_answers(history, outcomes):
        history.add(lost)
    changed: set[str] = set()
    answered, uncounted = {key for key, _ in history.states}, history.stale
    absent: set[str] = set()
    work: dict[str, RunWork] = {}
    left: list[Recipe] = []
    for run in known_runs(history):
        state, whole = history.state(run), history.keeps(run)
        if state.answered:
            work[run.key] = "done"
            continue
        older = outcomes.of(run.key)
        counts_here = {history.code(run), codes(run.recipe).digest}  # today's code, where the adopted answer is gone
        if any((not whole or outcomes.is_whole(one)) and (adopt or one.name in counts_here) for one in older):
            work[run.key] = "reused"
            continue
        work[run.key] = "missing"
        left.append(run.recipe)
        absent.update(_absent(run.recipe, outcomes.data))
        if older:
            changed.update(codes(run.recipe).changed(older[-1].code))
            uncounted += run.key not in answered
    for run in (run for trial in history.trials for run in history.runs(trial).values()):
        if run.key not in work and not history.state(run).answered:  # a point of tuning that is not trained again
            changed.update(file for one in outcomes.of(run.key)[-1:] for file in codes(run.recipe).changed(one.code))
    ahead, counts, base = unproposed(history), Counter(work.values()), history.edition.study.base
    left += ahead.recipes
    times, peaks = _measured_times_and_peaks(history, outcomes, placement)
    reused = {key for key, one in work.items() if one == "reused"}
    seconds = Forecast(history, times)(placement.max_concurrent, reused).seconds
    recipes = [base, *(trial.recipe for trial in known_trials(history.edition))]
    return WorkEstimate(
        done=counts["done"],
        reused=counts["reused"],
        missing=counts["missing"],
        unknown=len(ahead.recipes),
        uncounted=uncounted,
        changed=tuple(sorted(changed)),
        seconds=START_S + seconds if left and seconds is not None else None,
        weight=estimate_cost(base),
        placement=placement,
        absent=tuple(sorted(absent)),
        images=_images(base, placement),
        pixels=_pixels(base),
        run_size=run_size(recipes),
        sources=(*image_sources(recipes), *fitted(history.edition)),
        asked=history.trials_asked,
        points=most_trials(history),
        peak_gib=max(peaks, default=None),
        epoch_s=times.usual,
        work=work_rows(history, work, ahead),
        stated_time=history.edition.stated_time,
        recipes=tuple(left),
        saved=str(saved_images(history)),
        races=getattr(history.edition.study.plan, "race", False),
    )


def _absent(recipe: Recipe, data: Path) -> Iterator[str]:
    """A sentence for everything that a recipe reads and that is not there."""
    for path in recipe.files:
        if not os.path.isfile(path):
            yield f"{path} must be a file of weights, got no such file"
    if missing := recipe.data.missing(data):
        yield missing


def _images(recipe: Recipe, placement: Placement) -> str:
    """How a set of real images is read, in words."""
    if not isinstance(recipe.data, ImagesSpec):
        return ""
    gib = recipe.data.decoded_bytes / 2**30
    if not recipe.data.streamed and not isinstance(recipe.augment, Mixing):
        return f"images are decoded once, and all runs share them ({gib:.1f} GiB)"
    which = "images" if recipe.data.streamed else "training images"
    workers = plural(placement.loader_workers, "loader worker") if placement.loader_workers else "the run itself"
    return f"{which} are decoded for each batch, by {workers}"


def _pixels(recipe: Recipe) -> str:
    """How pixels are normalized, where the recipe leaves the choice open."""
    if recipe.data.normalize.kind != "auto" or not isinstance(recipe.normalize, FromTimm):
        return ""
    return f"pixels are normalized by timm's mean and std of {recipe.normalize.name} (data.normalize.kind)"


def measured(history: History, name: str) -> list[float]:
    """A metric of every epoch that this study has measured."""
    curves = [state.curve for state in history.states.values()]
    return [one.values[name] for curve in curves for one in curve.values() if name in one.values]


def run_memory(history: History, outcomes: Outcomes) -> float:
    """The memory of a run, for the choice of how many share a GPU: of the largest arm or first point. Units: GiB.

    The largest of what was measured and of what follows by arithmetic, because arms differ.
    """
    study = history.edition.study
    some = known_trials(history.edition)
    costs = [estimate_cost(recipe) for recipe in [study.base, *(trial.recipe for trial in some)]]
    _, peaks = _measured_times_and_peaks(history, outcomes)
    return max([*peaks, *(cost.memory_bytes / 2**30 for cost in costs)])


def usual_epoch_s(history: History, outcomes: Outcomes) -> float | None:
    """The time of an epoch of this study, or of earlier answers of the same data and model; None if none is known.

    Units: seconds.
    """
    return _measured_times_and_peaks(history, outcomes)[0].usual


def _measured_times_and_peaks(
    history: History, outcomes: Outcomes, placement: Placement | None = None
) -> tuple[EpochTimes, list[float]]:
    """The times of epochs and the memory of runs: of this study, else of earlier answers of the same kind of device."""
    states = [(run.recipe, history.state(run)) for run in known_runs(history)]
    own = EpochTimes(
        run_time(recipe, (epoch.values for epoch in state.curve.values()), state.answered) for recipe, state in states
    )
    if own.usual is not None:
        return own, measured(history, "memory/peak_gib")
    return _measured_alike(outcomes, history.edition.study.base, placement)


def _measured_alike(outcomes: Outcomes, base: Recipe, placement: Placement | None) -> tuple[EpochTimes, list[float]]:
    """The time of an epoch and the memory of earlier answers of the same data and model, on a CPU or on a GPU."""
    files = sorted(outcomes.folder.glob("*/*.json"), key=lambda path: path.stat().st_mtime)[-LOOKED_AT:]
    found = [outcomes.get(path.parent.name, path.stem) for path in files]
    alike = [one for one in found if one and (one.run.recipe.data, one.run.recipe.model) == (base.data, base.model)]
    if placement is not None:
        alike = [one for one in alike if (one.environment.get("device", "cpu") == "cpu") == (placement.device == "cpu")]
    curves = [(one.run.recipe, [epoch.values for epoch in one.outcome.curve]) for one in alike]
    times = EpochTimes(run_time(recipe, curve, ended=True) for recipe, curve in curves)
    return times, [peak for _, curve in curves for peak in _each("memory/peak_gib", curve)]


def _each(name: str, epochs: Iterable[Mapping[str, float]]) -> list[float]:
    """A metric of the epochs that have it."""
    return [values[name] for values in epochs if name in values]


def run_size(recipes: Iterable[Recipe]) -> str:
    """The epochs and images of a run; if recipes differ, the least and the most."""
    recipes = list(recipes)
    counts = [recipe.data.image_counts for recipe in recipes]
    epochs = _range(recipe.optimizer.epochs for recipe in recipes)
    train, validation, test = (_range(getattr(one, name) for one in counts) for name in ("train", "validation", "test"))
    word = "epoch" if epochs == "1" else "epochs"
    return f"each run: {epochs} {word} of {train} training images; {validation} validation and {test} test images"


def fitted(edition: Edition) -> list[str]:
    """The sizes that follow from the images, in a sentence; nothing if the study says them."""
    size = edition.study.budgets.get(edition.budget)
    if size is None or size.fit is None:
        return []
    return [f"from images and budget follow {fit_words(edition.study.base)}; --set changes them"]


def image_sources(recipes: Iterable[Recipe]) -> list[str]:
    """Which images of each set of photographs are used, and where those of each split come from, a line a set.

    Behind it what a reader should know: if images are few, and of a folder, such as files that are not read, a
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
