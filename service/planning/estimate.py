"""Estimates the work of a study: which runs have an answer, which are to be trained and why, the time and the memory.

An answer is the stored outcome of a run. Files are only read. The time follows from the epochs of earlier answers. It
is unknown before the first epoch.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import trainables
from search_spaces.fit import fit_words
from search_spaces.study import Edition, Trial
from search_spaces.words import clock, listed, plural, rough_time, space_words
from service.planning.forecast import (
    Forecast,
    Unproposed,
    blind,
    known_runs,
    known_trials,
    lost_answers,
    measured_times_and_peaks,
    most_trials,
    unlisted_arms,
    unproposed,
)
from service.planning.placement import Placement, fused_gib, gpu_advice, runs_by_memory
from service.planning.schedule import parent_name, play_tuning, unplanned
from service.planning.stopping import saved_images
from service.storage.facts import Counts
from service.storage.history import History, ancestors
from service.storage.outcomes import Answered, Outcomes
from trainables.data import Arrays, Folder, ImagesSpec
from trainables.data.array_copies import copies
from trainables.data.augment import Mixing
from trainables.data.dataset import SplitName
from trainables.kept import keep, kept, seen
from trainables.recipe import FromTimm, Recipe, Run
from trainables.recipe.cost import Cost, estimate_cost, most_forward_flops, training_operations
from trainables.recipe.revisions import code_of
from trainables.spec import digest

MOST = 12
"""How many arms that are still to be tuned get a row each; more of them share one row."""

RunWork = Literal["done", "reused", "missing"]


@dataclass(frozen=True)
class WorkRow:
    """One trial, and how many of its runs are `done` here, `reused` from other studies, or `missing`: to be trained."""

    label: str
    name: str
    done: int = 0
    reused: int = 0
    missing: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        return self.done, self.reused, self.missing


def work_rows(history: History, work: Mapping[str, RunWork], ahead: Unproposed) -> tuple[WorkRow, ...]:
    """Returns a row for each trial, parents too. `work` says for each run, by key, whether it is done."""
    tuning = [trial for trial in history.of("tuning") if not history.tuning.is_settled(trial)]
    waiting = [trial for trial in tuning if "done" not in (work.get(run.key) for run in history.asked(trial))]
    labels = {trial.label for trial in waiting}
    rows, listed_runs = [], set[str]()
    for trial in history.trials:
        listed_runs |= {run.key for run in history.runs(trial).values()}
        if trial.label not in labels:
            runs = history.asked(trial)
            # A choice was made by this trial and stays, though another code trained it.
            is_kept = history.tuning.is_settled(trial) and not runs
            rows.append(_row(trial.label, f"{trial.name}, kept (other code)" if is_kept else trial.name, runs, work))
    arms = unlisted_arms(history)
    rows += [_row(arm.label, arm.name, history.asked(arm), work) for arm in arms]

    parents: dict[str, dict[str, Run]] = {}  # parents that the journal does not list yet, by the name of their trial
    for run in (run for trial in [*history.trials, *arms] for run in history.asked(trial)):
        for use, parent in run.parents.items():
            for ancestor in [*ancestors(parent), parent]:
                if ancestor.key not in listed_runs:
                    parents.setdefault(parent_name(ancestor, use), {})[ancestor.key] = ancestor
    rows += [_row("p", name, runs.values(), work) for name, runs in parents.items()]

    if history.edition.study.plan.tune:
        rows += _tuning_rows(history, waiting, work)
    elif ahead.points:
        name = "points that the search proposes, and their confirmation, at most"
        rows.append(WorkRow("", name, missing=len(ahead.points)))
    if ahead.parents:
        rows.append(WorkRow("p", "parents of runs that are not proposed yet", missing=len(ahead.parents)))
    return tuple(rows)


def _tuning_rows(history: History, waiting: list[Trial], work: Mapping[str, RunWork]) -> list[WorkRow]:
    """Returns a row for the trials that tuning will train, and rows for its arms. `waiting` lists trials not begun."""
    tune, arms, ahead = history.edition.study.plan.tune, history.tuning.untuned_arms(), [*unplanned(history)]
    if len(arms) > MOST:
        rows = [WorkRow("", f"{len(arms)} arms, as tuned", missing=len(arms) * history.seeds)]
    else:
        rows = [WorkRow("", f"{name}, as tuned", missing=history.seeds) for name in arms]
    if not (ahead or waiting) or tune is None:
        return rows
    begun = [trial.tunes[0] for trial in waiting if trial.tunes]
    tuned = list(dict.fromkeys([*begun, *(point.arm for point in ahead)]))
    names = f"{len(tuned)} arms" if len(tuned) > MOST else listed(tuned)
    name = f"tuning of {names}, {plural(tune.trials, 'trial')} each"
    row = _row("t", name, [run for trial in waiting for run in history.asked(trial)], work)
    return [replace(row, missing=row.missing + len(ahead) * tune.seeds), *rows]


def _row(label: str, name: str, runs: Iterable[Run], work: Mapping[str, RunWork]) -> WorkRow:
    """Returns the row that counts these runs by their work."""
    kinds = [work.get(run.key) for run in runs]
    return WorkRow(label, name, *(kinds.count(kind) for kind in ("done", "reused", "missing")))


GPU_FLOPS = 50e12
"""How many floating-point operations a GPU is assumed to do in a second while it trains. The peak of an A100 is 312e12
in bfloat16 (NVIDIA's data sheet), and small transformers reach a part of it."""
STEP_S = 0.02
"""The least time that a step of training is assumed to take: Python starts a thousand kernels. Units: seconds."""


@dataclass(frozen=True)
class WorkEstimate:
    """The runs of a study, counted by the work that is left, and what this work takes.

    Args:
        done: How many runs this study has ended with an answer.
        reused: How many runs have a stored answer that another study has trained.
        missing: How many known runs are to be trained.
        unknown: How many runs belong to points that are not proposed yet, at most.
        uncounted: How many answers, of this study and of others, do not count, because another code trained them;
            `status` and the report count those of this study alone.
        changed: What has another revision in that code than today.
        seconds: How long the rest will take; None if that is not known, or nothing is to be trained.
        weights: The cost of each arm or first point.
        absent: A sentence for each file of weights and each data set that missing runs need and that is not there.
        about: Sentences on a run and its images.
        notes: Sentences on early stopping and the sampler.
        trials: How many trials are asked for.
        points: As many, or as many as the space of the search has points, if these are fewer.
        peak_gib: The most memory that a run was measured to take, in GiB; None if no run was measured.
        work: A row for each trial.
        stated_time: What the study says that the budget takes on 2 cores, in words.
        recipes: A recipe for each run to train; for a point that is not proposed yet, that of its arm or the base.
        gpu_hours: The hours that one GPU is assumed to need (`with_gpu_hours`).
        races: Whether arms may get fewer seeds than are asked for.
    """

    done: int
    reused: int
    missing: int
    unknown: int
    uncounted: int
    changed: tuple[str, ...]
    seconds: float | None
    weights: tuple[Cost, ...]
    placement: Placement
    absent: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    trials: int = 0
    points: int = 0
    peak_gib: float | None = None
    work: tuple[WorkRow, ...] = ()
    stated_time: str = ""
    recipes: tuple[Recipe, ...] = ()
    gpu_hours: float | None = None
    races: bool = False

    @property
    def run_gib(self) -> float:
        """The memory of one run: the measured one or, where no run was measured, a predicted one. Units: GiB."""
        most = max(weight.memory_bytes for weight in self.weights)
        return most / 2**30 if self.peak_gib is None else self.peak_gib

    def beside(self, seconds: float, peak_gib: float | None) -> str:
        """Returns the predicted time and memory beside the measured ones, in words.

        Units: seconds of the whole study; GiB of a run.
        """
        time = "time unknown" if self.seconds is None else clock(self.seconds)
        measured = "" if peak_gib is None else f" and {peak_gib:.1f} GiB a run"
        return f"predicted: {time} and {self.run_gib:.1f} GiB a run; measured: {clock(seconds)}{measured}"

    def with_gpu_hours(self) -> WorkEstimate:
        """Returns the estimate with the hours of one GPU at `GPU_FLOPS`, if nothing else is known of the time.

        A run takes the longer of two times: that of its operations, or that of its steps. Torch counts the operations
        of large recipes; the counts are kept in a file. The hours stay unknown without torch, and for a model of the
        user's own whose forward pass reads numbers.
        """
        if self.seconds is not None or self.stated_time or not self.recipes:
            return self
        alike = {digest(recipe.identity()): recipe for recipe in self.recipes}
        counts = Counter(digest(recipe.identity()) for recipe in self.recipes)
        seconds: dict[str, float] = {}
        for key, recipe in alike.items():
            steps = math.ceil(recipe.data.image_counts.train / recipe.optimizer.batch_size)
            seconds[key] = recipe.optimizer.trained_epochs * steps * STEP_S
        most = {key: training_operations(recipe, most_forward_flops) for key, recipe in alike.items()}
        large = {key: recipe for key, recipe in alike.items() if most[key] / GPU_FLOPS > seconds[key]}
        if large:
            try:
                packages = (version("torch"), version("timm"))
            except PackageNotFoundError:  # a laptop that only submits
                return self
            mark = "\n".join([*packages, seen(Path(str(trainables.__file__)).parent)])
            name = f"operations-{digest([recipe.model_dump_json() for recipe in large.values()], 64)}.json"
            flops: list[int] | None = kept(name, mark)
            if flops is None:
                try:
                    from trainables.recipe.flops_torch import training_flops

                    flops = [training_flops(recipe) for recipe in large.values()]
                except (ImportError, RuntimeError, TypeError):  # a tensor of shapes alone has no numbers to read
                    return self
                keep(name, mark, flops)
            seconds |= {key: max(count / GPU_FLOPS, seconds[key]) for key, count in zip(large, flops, strict=True)}
        return replace(self, gpu_hours=sum(counts[key] * seconds[key] for key in alike) / 3600)

    @property
    def to_train(self) -> int:
        """The number of runs that would be trained, at most."""
        return self.missing + self.unknown

    def lines(self, id: str) -> Iterator[str]:
        """Yields the plan in words; the last line begins with `plan:`."""
        if self.uncounted:
            why = f" ({'; '.join(self.changed)})" if self.changed else ""
            yield f"not counted: {plural(self.uncounted, 'answer')} of other code{why}"
        yield from (*self.absent, *self.about)
        if self.points < self.trials:
            yield f"the space has no more than {self.points} points: {self.trials} trials were asked for"
        gpu, together = self.placement.gpu_gib, self.placement.fuse
        if gpu is not None and not self.placement.workers:
            fit = runs_by_memory(gpu, fused_gib(self.run_gib, together))
            if fit != self.placement.runs_per_gpu:
                fitting = plural(fit, f"model of {together} runs" if together > 1 else "run")
                yield f"a GPU of {gpu:.0f} GiB would hold {fitting} by memory (--runs-per-gpu)"
        yield from self.notes

        memory = fused_gib(self.run_gib, together) * math.ceil(self.placement.max_concurrent / together)
        frozen = any(weight.learnt < weight.parameters for weight in self.weights)
        learnt = f", {_range(weight.learnt for weight in self.weights)} of them learn" if frozen else ""
        parameters = _range(weight.parameters for weight in self.weights)
        yield f"{self.placement}; {parameters} parameters{learnt}, {memory:.1f} GiB in all"

        time = "time unknown until the first epoch"
        if not self.to_train:
            time = "nothing to wait for"
        elif self.seconds is not None:
            time = f"about {clock(self.seconds)}"
        elif self.stated_time:
            time += f" (the study says: {self.stated_time} on 2 cores)"
        elif self.gpu_hours is not None:
            time += f" (about {rough_time(60 * self.gpu_hours)} of a GPU at {GPU_FLOPS / 1e12:.0f} TFLOP/s)"
        most = "at most " if self.unknown or (self.races and self.missing) else ""
        counts = f"{most}{plural(self.to_train, 'run')} to train, {self.done} done, {self.reused} reused"
        yield f"plan: {id}: {counts}; {time}"


START_S = 11.0
"""How long a study takes beside its epochs: Ray starts and ends, and workers import torch and timm. Units: seconds."""


def estimate_work(history: History, outcomes: Outcomes, placement: Placement) -> WorkEstimate:
    """Returns the estimate of a study in its present state.

    It adds to the history the facts that a driver writes first: that failed runs are tried again, and which answers are
    lost.
    """
    if any(state.failures for state in history.states.values()):
        history.add(Counts(seeds=history.seeds, trials=history.trials_asked or None))
    for lost in lost_answers(history, outcomes):
        history.add(lost)

    def find(run: Run) -> Answered | None:
        return outcomes.usable(run.key, history.code(run), whole=history.keeps(run))

    copied = play_tuning(history, find)
    changed: set[str] = set()
    answered, uncounted = {key for key, _ in history.states}, history.stale
    work: dict[str, RunWork] = {}
    recipes: list[Recipe] = []
    for run in known_runs(history):
        if history.state(run).answered:
            work[run.key] = "reused" if run.key in copied else "done"
        elif find(run) is not None:
            work[run.key] = "reused"
        else:
            work[run.key] = "missing"
            recipes.append(run.recipe)
            if older := outcomes.of(run.key):
                changed.update(code_of(run.recipe).changed(older[-1].code))
                uncounted += run.key not in answered
    for run in (run for trial in history.trials for run in history.runs(trial).values()):
        if run.key not in work and not history.state(run).answered:  # a point of tuning that is not trained again
            changed.update(
                name for last in outcomes.of(run.key)[-1:] for name in code_of(run.recipe).changed(last.code)
            )
    return _estimate(history, outcomes, placement, work, recipes, uncounted=uncounted, changed=tuple(sorted(changed)))


def _estimate(
    history: History,
    outcomes: Outcomes,
    placement: Placement,
    work: Mapping[str, RunWork],
    recipes: list[Recipe],
    *,
    uncounted: int,
    changed: tuple[str, ...],
) -> WorkEstimate:
    """Returns the estimate. `work` says for each run, by key, whether it is done; `recipes` are of missing runs."""
    edition, ahead, counts = history.edition, unproposed(history), Counter(work.values())
    left = [*recipes, *ahead.recipes]
    absent: set[str] = set()
    for recipe in {id(recipe): recipe for recipe in left}.values():  # the seeds of a trial share one
        missing = [path for path in recipe.files if not os.path.isfile(path)]
        absent |= {f"{path} must be a file of weights, got no such file" for path in missing}
        if sentence := recipe.data.missing(outcomes.data):
            absent.add(sentence)
    times, peaks = measured_times_and_peaks(history, outcomes, placement)
    reused = {key for key, kind in work.items() if kind == "reused"}
    seconds = Forecast(history, times)(placement.max_concurrent, reused).seconds
    first = [trial.recipe for trial in known_trials(edition)] or [edition.study.base]
    notes = str(saved_images(history)), blind(history, placement.max_concurrent)
    return WorkEstimate(
        done=counts["done"],
        reused=counts["reused"],
        missing=counts["missing"],
        unknown=len(ahead.recipes),
        uncounted=uncounted,
        changed=changed,
        seconds=START_S + seconds if left and seconds is not None else None,
        weights=tuple(estimate_cost(recipe, placement.grad_checkpointing) for recipe in first),
        placement=placement,
        absent=tuple(sorted(absent)),
        about=(run_size(first), *image_sources(first), *_choices(edition, placement)),
        notes=tuple(note for note in notes if note),
        trials=history.trials_asked,
        points=most_trials(history),
        peak_gib=max(peaks, default=None),
        work=work_rows(history, work, ahead),
        stated_time=edition.stated_time,
        recipes=tuple(left),
        races=getattr(edition.study.plan, "race", False),
    )


def run_size(recipes: Iterable[Recipe]) -> str:
    """Returns in words how many epochs and images a run has; if recipes differ, the least and the most."""
    recipes = list(recipes)
    counts = [recipe.data.image_counts for recipe in recipes]
    epochs = _range(recipe.optimizer.epochs for recipe in recipes)
    train, validation, test = (
        _range(getattr(count, name) for count in counts) for name in ("train", "validation", "test")
    )
    word = "epoch" if epochs == "1" else "epochs"
    return f"each run: {epochs} {word} of {train} training images; {validation} validation and {test} test images"


def _choices(edition: Edition, placement: Placement) -> Iterator[str]:
    """Yields sentences on what follows from images and base recipe: sizes, the reading of images, faster ways."""
    base, size = edition.study.base, edition.study.budgets.get(edition.budget)
    if size is not None and size.fit is not None:
        tuned = ""
        if tune := edition.study.plan.tune:
            length = base.optimizer.every_length[0 if tune.length == "shortest" else -1]
            tried = " and ".join(f"{path} {domain}" for path, domain in space_words(tune.space).items())
            tuned = f"; each arm is tuned at {plural(length, 'epoch')}, by {tried}"
        yield f"from images and budget follow {fit_words(base)}; --set changes them{tuned}"
    if isinstance(base.data, ImagesSpec) and isinstance(base.augment, Mixing):
        images = "images" if base.data.streamed else "training images"
        workers = plural(placement.loader_workers, "loader worker") if placement.loader_workers else "the run itself"
        yield f"{images} are decoded for each batch, by {workers}"
    elif isinstance(base.data, ImagesSpec):
        on_disk = "read from the disk for each batch, if it has twice the room"
        read = on_disk if base.data.streamed else "shared by all runs"
        yield f"images are decoded once, and {read} ({base.data.decoded_bytes / 2**30:.1f} GiB)"
    if base.data.normalize.kind == "auto" and isinstance(base.normalize, FromTimm):
        is_whole = getattr(base.data, "crop_pct", 0.0) < 1
        cropped = "" if is_whole else "; timm may crop its images, too (data.crop_pct)"
        yield f"pixels are normalized by timm's mean and std of {base.normalize.name} (data.normalize.kind){cropped}"
    yield from gpu_advice(base, placement)


def image_sources(recipes: Iterable[Recipe]) -> list[str]:
    """Returns a line for each set of photographs: how many images are used, and where those of each split come from.

    After the line of a set come sentences on what a reader should know: that images are few, or that files of the
    folder are not read.
    """
    sets: dict[tuple[str, str], list[ImagesSpec]] = {}
    for data in (recipe.data for recipe in recipes):
        if isinstance(data, ImagesSpec):
            sets.setdefault((data.kind, data.fingerprint), []).append(data)
    lines: list[str] = []
    for alike in sets.values():
        first, counts = alike[0], [data.image_counts for data in alike]
        source = first.described()
        splits = [
            f"{name}: {_range(getattr(count, split) for count in counts)} images {getattr(source, split)}"
            for split, name in (("train", "training"), ("validation", "validation"), ("test", "test"))
        ]
        name = first.path if isinstance(first, Arrays | Folder) else first.kind
        sides = " and ".join(f"{side} x {side}" for side in sorted({data.size[1] for data in alike}))
        lines.append(f"images of {name}, {first.outputs:,} classes, {sides} pixels: {'; '.join(splits)}")
        lines += _few(min(alike, key=lambda data: data.image_counts.validation))
        lines += (*source.remarks, *copies(first))
    return lines


SCORED: tuple[tuple[SplitName, str], ...] = (("val", "validation"), ("test", "test"))
"""The splits that are scored, each with the word for its images."""
FEW = 200
"""Below this number of images a line says that they are few: one is more than half a percent of an accuracy."""


def _few(data: ImagesSpec) -> Iterator[str]:
    """Yields a sentence if few images are scored, with ways to score more, and one if a class may have none."""
    counts, available = data.image_counts, data.available
    few = [
        f"{data.score(data.step(split), split) - data.score(0.0, split):.2g} of a score on {count} {word} images"
        for split, word in SCORED[: 1 if data.cross_validated else 2]
        if (count := getattr(counts, word)) < FEW
    ]
    if few:
        validate, test = counts.validation < FEW and not available.validation, counts.test < FEW and not available.test
        hold_test = "" if available.test else " --set data.test_size=N"
        ways = {
            "--set data.val_size=N holds out more to validate": validate,
            "--set data.test_size=N holds out more to test": test,
            f"--set data.folds=5{hold_test} validates on the others in turn": validate,
        }
        more = "".join(f"; {way}" for way, helps in ways.items() if helps and not data.folds)
        yield f"few images: one image is {' and '.join(few)}{more}"
    rare = [
        f"{count:,} {word} images"
        for split, word in SCORED
        if (count := getattr(counts, word)) * getattr(data.rarest, split) < 1 - 1e-9
    ]
    if rare:
        yield f"some classes can be without an image among the {' and '.join(rare)}: those are not scored"


def _range(numbers: Iterable[int]) -> str:
    """Returns the least and the greatest number in words, or the number if all are equal."""
    values = sorted(set(numbers))
    return f"{values[0]:,}" if len(values) == 1 else f"{values[0]:,} to {values[-1]:,}"
