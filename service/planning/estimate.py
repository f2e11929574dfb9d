"""What a study would train: what is there already, what is missing and why, how much time and memory it takes.

It only reads files. The time comes from the epochs of earlier answers; it is unknown before the first one.
"""

from __future__ import annotations

import math
import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from statistics import median

from search_spaces.grid import grid, is_finite
from search_spaces.roles import CONFIRMED
from search_spaces.study import Search
from search_spaces.words import plural, rough_time
from service.planning.known_trials import known_trials
from service.planning.lost import lost_answers
from service.planning.placement import Placement, runs_by_memory
from service.planning.run_size import run_size
from service.planning.tuning import unplanned
from service.planning.work_rows import RunWork, WorkRow, unlisted_arms, work_rows
from service.storage.history import History, ancestors
from service.storage.outcomes import Outcomes
from service.storage.tuned import tuning_of
from trainables.data import ImagesSpec
from trainables.recipe import FromTimm, Recipe, Run
from trainables.recipe.code_digest import CodeDigests
from trainables.recipe.cost import Cost, estimate_cost
from trainables.spec import digest

LOOKED_AT = 60
"""How many earlier answers are read for the time of an epoch."""


START_S = 11.0
"""What a study takes beside its epochs: the start and the end of Ray, and workers that import torch and timm."""


GPU_FLOPS = 50e12
"""Floating-point operations that a GPU is taken to do in a second while it trains. It is an assumption: the peak of an
A100 is 312e12 in bfloat16 (NVIDIA's data sheet), and small transformers reach a part of it."""
STEP_S = 0.02
"""The least time of a step of training, also an assumption: Python starts a thousand kernels, however small."""


@dataclass(frozen=True)
class WorkEstimate:
    """Counts of runs: `done` in this study, `reused` from the outcomes, `missing`, `unknown` (points not yet proposed).

    `changed` counts runs whose answer is of older code, by the file that changed; `absent`: a sentence for each file of
    weights and each data set that missing runs need and that is not there. `points` counts the points of a space that
    has fewer than the trials `asked` for; elsewhere it equals them. `peak_gib`: the most memory that a run took, where
    one is known; `epoch_s`: the time of an epoch of a run; `work`: a row a
    trial; `stated_minutes`: what the study says that the budget takes on 2 cores; `recipes`: one for each run to train,
    the base where a point is unknown; `gpu_hours`: see `with_gpu_hours`. Units: seconds, bytes.
    """

    done: int
    reused: int
    missing: int
    unknown: int
    changed: dict[str, int]
    seconds: float | None
    weight: Cost
    placement: Placement
    absent: tuple[str, ...] = ()
    images: str = ""
    pixels: str = ""
    run_size: str = ""
    asked: int = 0
    points: int = 0
    peak_gib: float | None = None
    epoch_s: float | None = None
    work: tuple[WorkRow, ...] = ()
    stated_minutes: float | None = None
    recipes: tuple[Recipe, ...] = ()
    gpu_hours: float | None = None

    @property
    def run_gib(self) -> float:
        """The memory of one run: measured where one is known, else by arithmetic."""
        return self.weight.memory_bytes / 2**30 if self.peak_gib is None else self.peak_gib

    def beside(self, seconds: float, peak_gib: float | None) -> str:
        """What was predicted beside what was measured. Units: seconds of the whole study; GiB of a run."""
        time = "time unknown" if self.seconds is None else clock(self.seconds)
        measured = "" if peak_gib is None else f" and {peak_gib:.1f} GiB a run"
        return f"predicted: {time} and {self.run_gib:.1f} GiB a run; measured: {clock(seconds)}{measured}"

    def with_gpu_hours(self) -> WorkEstimate:
        """The estimate with the hours of one GPU at `GPU_FLOPS`, where nothing else is known of the time.

        It imports torch. The hours stay unknown for a model of the user's own that needs numbers to be built.
        """
        if self.seconds is not None or self.stated_minutes is not None or not self.recipes:
            return self
        from trainables.recipe.flops_torch import training_flops

        digests = [digest(recipe.identity()) for recipe in self.recipes]
        seconds = 0.0
        try:
            for one, recipe in dict(zip(digests, self.recipes, strict=True)).items():
                steps = recipe.optimizer.epochs * math.ceil(
                    recipe.data.image_counts.train / recipe.optimizer.batch_size
                )
                seconds += digests.count(one) * max(training_flops(recipe) / GPU_FLOPS, steps * STEP_S)
        except (RuntimeError, TypeError):  # a tensor of shapes alone has no numbers to read
            return self
        return replace(self, gpu_hours=seconds / 3600)

    @property
    def to_train(self) -> int:
        """How many runs would be trained, at most."""
        return self.missing + self.unknown

    def lines(self, id: str) -> Iterator[str]:
        """The plan in words; the last line begins with `plan:`."""
        for file, count in self.changed.items():
            yield f"{file} changed: {runs_in_words(count)} of older code not counted (--adopt counts)"
        yield from self.absent
        yield from (words for words in (self.run_size, self.images, self.pixels) if words)
        if self.points < self.asked:
            yield f"the space has no more than {self.points} points: {self.asked} trials were asked for"
        parts = [f"{runs_in_words(self.to_train)} to train", f"{self.done} done", f"{self.reused} reused"]
        if shared := self._shared():
            yield shared
        memory = self.run_gib * self.placement.max_concurrent
        some = self.weight.learnt < self.weight.parameters
        learnt = f", {self.weight.learnt:,} of them learn" if some else ""
        yield f"{self.placement}; {self.weight.parameters:,} parameters{learnt}, {memory:.1f} GiB in all"
        yield f"plan: {id}: {', '.join(parts)}; {self._time()}"

    def _time(self) -> str:
        """The time in words: measured, or stated by the study, or counted by arithmetic, or unknown."""
        if not self.to_train:
            return "nothing to wait for"
        if self.seconds is not None:
            return f"about {clock(self.seconds)}"
        if self.stated_minutes is not None:
            said = f" (on 2 cores it took {rough_time(self.stated_minutes)})"
        elif self.gpu_hours is not None:
            said = f" (about {self.gpu_hours:.2g} hours of a GPU at {GPU_FLOPS / 1e12:.0f} TFLOP/s)"
        else:
            said = ""
        return f"time unknown until the first epoch{said}"

    def _shared(self) -> str:
        """How many runs the memory of a GPU would hold, where that is known and not what was chosen."""
        gpu = self.placement.gpu_gib
        if gpu is None or self.placement.workers:
            return ""
        fit = runs_by_memory(gpu, self.run_gib)
        if fit == self.placement.runs_per_gpu:
            return ""
        return f"a GPU of {gpu:.0f} GiB would hold {runs_in_words(fit)} by memory (--runs-per-gpu)"


def estimate_work(
    history: History, outcomes: Outcomes, placement: Placement, codes: CodeDigests, *, adopt: bool = False
) -> WorkEstimate:
    """The plan of a study in its present state. `adopt`: answers of older code count.

    Runs whose answers are lost fail in this history, as they will in the driver's.
    """
    for lost in lost_answers(history, outcomes):
        history.add(lost)
    changed, epochs = Counter[str](), 0
    absent: set[str] = set()
    work: dict[str, RunWork] = {}
    missing: list[Recipe] = []
    for run in known_runs(history):
        state, whole = history.state(run), history.keeps(run)
        if state.answered:
            work[run.key] = "done"
            continue
        older = outcomes.of(run.key)
        counts_here = {history.code(run), codes(run.recipe).digest}  # today's code, where the adopted answer is gone
        if any(
            (not whole or outcomes.is_whole(one)) and (adopt or counts_here & {one.name, one.code.digest})
            for one in older
        ):
            work[run.key] = "reused"
            continue
        work[run.key] = "missing"
        missing.append(run.recipe)
        absent.update(_absent(run.recipe, outcomes.data))
        epochs += run.recipe.optimizer.epochs - state.epoch
        if older:
            changed.update(codes(run.recipe).changed(older[-1].code))
    unknown = unproposed(history)
    counts = Counter(work.values())
    base = history.edition.study.base
    epochs += unknown * base.optimizer.epochs
    times, peaks = _measured_times_and_peaks(history, outcomes)
    runs = counts["missing"] + unknown
    rounds = math.ceil(runs / placement.max_concurrent)
    seconds = START_S + rounds * (epochs / runs) * median(times) if times and runs else None
    return WorkEstimate(
        done=counts["done"],
        reused=counts["reused"],
        missing=counts["missing"],
        unknown=unknown,
        changed=dict(changed),
        seconds=seconds,
        weight=estimate_cost(base),
        placement=placement,
        absent=tuple(sorted(absent)),
        images=_images(base, placement),
        pixels=_pixels(base),
        run_size=run_size([base, *(trial.recipe for trial in known_trials(history.edition))]),
        asked=history.trials_asked,
        points=most_trials(history),
        peak_gib=max(peaks, default=None),
        epoch_s=median(times) if times else None,
        work=work_rows(history, work, unknown),
        stated_minutes=history.edition.minutes,
        recipes=(*missing, *(base for _ in range(unknown))),
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
    if not recipe.data.streamed and recipe.augment.kind != "deit":
        return f"images are decoded once, and all runs share them ({gib:.1f} GiB)"
    which = "images" if recipe.data.streamed else "training images"
    workers = plural(placement.loader_workers, "loader worker") if placement.loader_workers else "the run itself"
    return f"{which} are decoded for each batch, by {workers}"


def _pixels(recipe: Recipe) -> str:
    """How pixels are normalized, where the recipe leaves the choice open."""
    if recipe.data.normalize.kind != "auto" or not isinstance(recipe.normalize, FromTimm):
        return ""
    return f"pixels are normalized by timm's mean and std of {recipe.normalize.name} (data.normalize.kind)"


def known_runs(history: History) -> list[Run]:
    """The runs whose recipes are known, without doubles."""
    runs = [run for trial in [*history.trials, *unlisted_arms(history)] for run in history.asked(trial)]
    parents = [parent for run in runs for parent in ancestors(run)]
    return list({run.key: run for run in [*runs, *parents]}.values())


def unproposed(history: History) -> int:
    """At most so many runs of points that no sampler has proposed yet, and of their confirmation or of tuned arms."""
    if tune := tuning_of(history.edition):
        return len([*unplanned(history)]) * tune.seeds + len(history.tuning.untuned_arms()) * history.seeds
    if not isinstance(history.edition.study.plan, Search):
        return 0
    most, rivals = most_trials(history), min(most_trials(history), history.rival_count)
    points = max(most - len(history.of("trial")), 0) + max(rivals - len(history.of("rival")), 0)
    if history.confirms and not points:
        return 0
    ahead = min(CONFIRMED + bool(history.edition.study.plan.first), most) + min(CONFIRMED, rivals)
    return (points + ahead) * history.seeds


def most_trials(history: History) -> int:
    """How many trials a search can have: as many as asked for, or as its space has points."""
    plan, asked = history.edition.study.plan, history.trial_count
    if not isinstance(plan, Search) or not (is_finite(plan.space) or plan.sampler == "grid"):
        return asked
    extra = len(plan.first) if plan.sampler == "grid" else 0  # the first points need not be points of the grid
    return sum(1 for _ in islice(grid(plan.space, history.edition.study.base), max(asked - extra, 0))) + extra


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


def _measured_times_and_peaks(history: History, outcomes: Outcomes) -> tuple[list[float], list[float]]:
    """The times of epochs and the memory of runs: of this study, else of earlier answers."""
    times = measured(history, "time/epoch_s")
    if times:
        return times, measured(history, "memory/peak_gib")
    return _measured_alike(outcomes, history.edition.study.base)


def _measured_alike(outcomes: Outcomes, base: Recipe) -> tuple[list[float], list[float]]:
    """The time of an epoch and the memory of earlier answers of the same data and model."""
    files = sorted(outcomes.folder.glob("*/*.json"), key=lambda path: path.stat().st_mtime)[-LOOKED_AT:]
    found = [outcomes.get(path.parent.name, path.stem) for path in files]
    alike = [one for one in found if one and (one.run.recipe.data, one.run.recipe.model) == (base.data, base.model)]
    last = [one.outcome.curve[-1].values for one in alike if one.outcome.curve]
    times, peaks = ([values[name] for values in last if name in values] for name in ("time/epoch_s", "memory/peak_gib"))
    return times, peaks


def runs_in_words(count: int) -> str:
    """`1 run`, `3 runs`."""
    return "1 run" if count == 1 else f"{count} runs"


def clock(seconds: float) -> str:
    """A duration for people: 03:10, 2:05:00."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes:02}:{rest:02}"
