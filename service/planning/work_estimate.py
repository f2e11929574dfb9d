"""What a study would train, in numbers and in words: counts of runs, of each trial and in all, time, memory."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal

import trainables
from search_spaces.study import Trial
from search_spaces.words import clock, listed, plural, rough_time
from service.planning.placement import Placement, runs_by_memory
from service.planning.runs_ahead import Unproposed, parent_name, unlisted_arms
from service.planning.schedule import unplanned
from service.storage.history import History, ancestors
from service.storage.tuned import tuning_of
from trainables.kept import keep, kept, seen
from trainables.recipe import Recipe, Run
from trainables.recipe.cost import Cost, most_forward_flops, training_operations
from trainables.spec import digest

MOST = 12
"""How many arms that are still to be tuned have a row of their own."""

RunWork = Literal["done", "reused", "missing"]


@dataclass(frozen=True)
class WorkRow:
    """One trial: its runs that are done in this study, reused from the answers of others, and to be trained."""

    label: str
    name: str
    done: int = 0
    reused: int = 0
    missing: int = 0

    @property
    def counts(self) -> tuple[int, int, int]:
        """Done, reused, missing."""
        return self.done, self.reused, self.missing


def work_rows(history: History, work: Mapping[str, RunWork], ahead: Unproposed) -> tuple[WorkRow, ...]:
    """A row a trial, parents too. `work`: what is to be done for a run, by key."""
    rows = [_row(trial.label, _name(history, trial), [*history.asked(trial)], work) for trial in history.trials]
    rows += [_row(arm.label, arm.name, history.asked(arm), work) for arm in unlisted_arms(history)]
    rows += [_row("p", name, runs, work) for name, runs in _unlisted_parents(history).items()]
    if tuning_of(history.edition):
        rows += _tuning_rows(history)
    elif ahead.points:
        words = "points that the search proposes, and their confirmation, at most"
        rows.append(WorkRow("", words, missing=len(ahead.points)))
    if ahead.parents:
        rows.append(WorkRow("p", "parents of runs that are not proposed yet", missing=len(ahead.parents)))
    return tuple(rows)


def _tuning_rows(history: History) -> list[WorkRow]:
    """What tuning proposes, and the arms whose values it chooses."""
    tune, arms, ahead = tuning_of(history.edition), history.tuning.untuned_arms(), [*unplanned(history)]
    if len(arms) > MOST:
        rows = [WorkRow("", f"{len(arms)} arms, as tuned", missing=len(arms) * history.seeds)]
    else:
        rows = [WorkRow("", f"{name}, as tuned", missing=history.seeds) for name in arms]
    if not ahead or tune is None:
        return rows
    tuned = list(dict.fromkeys(one.arm for one in ahead))
    names = f"{len(tuned)} arms" if len(tuned) > MOST else listed(tuned)
    words = f"tuning of {names}, {plural(tune.trials, 'trial')} each"
    return [WorkRow("t", words, missing=len(ahead) * tune.seeds), *rows]


def _name(history: History, trial: Trial) -> str:
    """The name of a trial; behind it, that a choice was made by it and stays, though another code trained it."""
    kept = history.tuning.is_settled(trial) and not history.asked(trial)
    return f"{trial.name}, kept (other code)" if kept else trial.name


def _row(label: str, name: str, runs: list[Run], work: Mapping[str, RunWork]) -> WorkRow:
    found = [work.get(run.key) for run in runs]
    return WorkRow(label, name, *(found.count(one) for one in ("done", "reused", "missing")))


def _unlisted_parents(history: History) -> dict[str, list[Run]]:
    """The runs that others need and that the journal does not list yet, by the name of their trial."""
    listed = {run.key for trial in history.trials for run in history.runs(trial).values()}
    found: dict[str, dict[str, Run]] = {}
    for trial in [*history.trials, *unlisted_arms(history)]:
        for run in history.asked(trial):
            for use, parent in run.parents.items():
                for one in [*ancestors(parent), parent]:
                    if one.key not in listed:
                        found.setdefault(parent_name(one, use), {})[one.key] = one
    return {name: list(runs.values()) for name, runs in found.items()}


GPU_FLOPS = 50e12
"""Floating-point operations that a GPU is taken to do in a second while it trains. It is an assumption: the peak of an
A100 is 312e12 in bfloat16 (NVIDIA's data sheet), and small transformers reach a part of it."""
STEP_S = 0.02
"""The least time of a step of training, also an assumption: Python starts a thousand kernels, however small."""


@dataclass(frozen=True)
class WorkEstimate:
    """Counts of runs: `done` in this study, `reused` from the outcomes, `missing`, `unknown` (points not yet proposed).

    `uncounted`: the answers that do not count, because another code trained them: those of this study, which `status`
    and the report count, too, and those of other studies; `changed`: the files in which that code differs; `absent`: a
    sentence for each file of weights and each data set that missing runs need and that is not there. `points` counts
    the points of a space that has fewer than the trials `asked` for; elsewhere it equals them. `peak_gib`: the most
    memory that a run took, where one is known; `epoch_s`: the time of an epoch of a run; `work`: a row a trial;
    `races`: whether arms may get fewer seeds than are asked for; `stated_time`: what the study says that the budget
    takes on 2 cores; `recipes`: one for each run to train, the base
    where a point is unknown; `gpu_hours`: see `with_gpu_hours`. Units: seconds, bytes.
    """

    done: int
    reused: int
    missing: int
    unknown: int
    uncounted: int
    changed: tuple[str, ...]
    seconds: float | None
    weight: Cost
    placement: Placement
    absent: tuple[str, ...] = ()
    images: str = ""
    pixels: str = ""
    run_size: str = ""
    sources: tuple[str, ...] = ()
    asked: int = 0
    points: int = 0
    peak_gib: float | None = None
    epoch_s: float | None = None
    work: tuple[WorkRow, ...] = ()
    stated_time: str = ""
    recipes: tuple[Recipe, ...] = ()
    gpu_hours: float | None = None
    saved: str = ""
    races: bool = False

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

        Torch counts the operations, where they and not the steps may decide; what it counted is kept. The hours stay
        unknown without torch, and for a model of the user's own that needs numbers to be built.
        """
        if self.seconds is not None or self.stated_time or not self.recipes:
            return self
        alike = {digest(recipe.identity()): recipe for recipe in self.recipes}
        counts = Counter(digest(recipe.identity()) for recipe in self.recipes)
        seconds = {one: _steps(recipe) * STEP_S for one, recipe in alike.items()}
        most = {one: training_operations(recipe, most_forward_flops) for one, recipe in alike.items()}
        large = [one for one in alike if most[one] / GPU_FLOPS > seconds[one]]
        counted = _counted([alike[one] for one in large])
        if counted is None:
            return self
        seconds |= {one: max(flops / GPU_FLOPS, seconds[one]) for one, flops in zip(large, counted, strict=True)}
        hours = sum(counts[one] * seconds[one] for one in alike) / 3600
        return replace(self, gpu_hours=hours)

    @property
    def to_train(self) -> int:
        """How many runs would be trained, at most."""
        return self.missing + self.unknown

    def lines(self, id: str) -> Iterator[str]:
        """The plan in words; the last line begins with `plan:`."""
        if self.uncounted:
            files = f": {listed([*self.changed])} changed" if self.changed else ""
            yield f"not counted: {plural(self.uncounted, 'answer')} of other code{files} (--adopt counts them)"
        yield from self.absent
        yield from (words for words in (self.run_size, *self.sources, self.images, self.pixels) if words)
        if self.points < self.asked:
            yield f"the space has no more than {self.points} points: {self.asked} trials were asked for"
        most = "at most " if self.races and self.to_train else ""
        parts = [f"{most}{plural(self.to_train, 'run')} to train", f"{self.done} done", f"{self.reused} reused"]
        if shared := self._shared():
            yield shared
        if self.saved:
            yield self.saved
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
        if self.stated_time:
            said = f" (the study says: {self.stated_time} on 2 cores)"
        elif self.gpu_hours is not None:
            said = f" (about {rough_time(60 * self.gpu_hours)} of a GPU at {GPU_FLOPS / 1e12:.0f} TFLOP/s)"
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
        return f"a GPU of {gpu:.0f} GiB would hold {plural(fit, 'run')} by memory (--runs-per-gpu)"


def _steps(recipe: Recipe) -> int:
    return recipe.optimizer.epochs * math.ceil(recipe.data.image_counts.train / recipe.optimizer.batch_size)


def _counted(recipes: list[Recipe]) -> list[int] | None:
    """The operations of each run, as torch counts them; None without torch, or where it cannot count them."""
    if not recipes:
        return []
    try:
        mark = "\n".join([version("torch"), version("timm"), seen(Path(str(trainables.__file__)).parent)])
    except PackageNotFoundError:  # a laptop that only submits
        return None
    name = f"operations-{digest([recipe.model_dump_json() for recipe in recipes], 64)}.json"
    found: list[int] | None = kept(name, mark)
    if found is None:
        try:
            from trainables.recipe.flops_torch import training_flops

            found = [training_flops(recipe) for recipe in recipes]
        except (ImportError, RuntimeError, TypeError):  # a tensor of shapes alone has no numbers to read
            return None
        keep(name, mark, found)
    return found
