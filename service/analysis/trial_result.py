"""The result of one trial: its runs, its scores on validation and test, its model; and one-line summaries of trials.

A run's numbers come from its answer, its stored outcome. If it was stopped, failed or is under way, they come from the
journal.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from statistics import harmonic_mean, median, stdev
from typing import TYPE_CHECKING, Any, NamedTuple

from search_spaces.roles import COMPARED
from search_spaces.study import Trial
from search_spaces.words import listed, plural, quoted, without_sources
from service.analysis.best import find_best
from service.analysis.format import left_out_words, raced_words, spread, stopped_words
from service.analysis.probes import RunProbes, over_other_images
from service.analysis.scores import diverged_seeds, scores_of, validation_scores
from service.analysis.statistics import Scores
from service.storage.facts import RunState, TrialAnswer
from service.storage.history import History
from service.storage.outcomes import Answered, Curve, Outcomes, averaged, require_sound
from trainables.recipe import Recipe, Run
from trainables.recipe.findings import Probed
from trainables.recipe.outcome import TOGETHER, Completed, Diverged, at_image_size, of_ema
from trainables.spec import LocusError, SpecError

if TYPE_CHECKING:
    from trainables.backbones.backbone_torch import Host
    from trainables.training.pictures import Pictures
    from trainables.training.trained import Predictions, TrainedModel


AFFECT_TIME = (
    *("device", "host_cpu", "machine", "threads", "workers", "fused"),
    *("matmul_fp32_precision", "conv_fp32_precision", "deterministic", "grad_checkpointing"),
)
"""The entries of a run's environment that make the same training faster or slower."""


@dataclass(frozen=True)
class TrialSummary:
    """One trial in words and numbers.

    `values` has its varied paths; `state` is its state in words, with the reason; `mark` is "best", "best (tie)" or
    empty. `metric` is the metric of its score, if it is not the study's own. `done` counts its runs that have an
    answer, `asked` all its runs; `epoch` is the last epoch so far, of `epochs`.
    """

    label: str
    name: str
    values: dict[str, object]
    done: int
    asked: int
    epoch: int
    epochs: int
    mean: float | None
    std: float | None
    state: str
    mark: str = ""
    metric: str = ""

    @property
    def best(self) -> bool:
        """True for the best trial, and for each of several that tie."""
        return bool(self.mark)

    @property
    def score(self) -> str:
        """The mean score with its standard deviation over seeds: 0.9961 +- 0.0012."""
        if self.mean is None:
            return ""
        metric = f" ({self.metric})" if self.metric else ""
        return f"{self.mean:.4f}" + (f" +- {self.std:.4f}" if self.std is not None else "") + metric


class Summaries:
    """A function that summarizes the trials of a study while it runs; it summarizes each settled trial only once."""

    def __init__(self, history: History) -> None:
        self.history = history
        self._settled: dict[str, TrialSummary] = {}
        self._invalidations = history.invalidations

    def __call__(self, *, alive: bool = True) -> list[TrialSummary]:
        """Returns one summary for each trial, in the order in which trials were added.

        `alive` says that a driver runs, the process that trains a study: unfinished runs are running, not interrupted.
        """
        history = self.history
        if self._invalidations != history.invalidations:
            self._invalidations = history.invalidations
            self._settled.clear()
        best = find_best(history)
        mark = "best (tie)" if best.tied else "best"
        winners = {trial.label for trial in best.trials}
        waiting = history.waiting()
        rows = [self._settled.get(trial.label) or _summary(history, trial, alive) for trial in history.trials]
        for trial, row in zip(history.trials, rows, strict=True):
            if trial.role in COMPARED and row.label not in waiting:
                self._settled[row.label] = row
        return [replace(row, mark=mark) if row.label in winners else row for row in rows]


def summarize(history: History, *, alive: bool = True) -> list[TrialSummary]:
    """Summarizes every trial once, as `Summaries` does."""
    return Summaries(history)(alive=alive)


def _summary(history: History, trial: Trial, alive: bool) -> TrialSummary:
    """Returns the summary of one trial, without its mark."""
    answer, metric = history.answer(trial), trial.score.metric
    runs = [history.state(run) for run in history.runs(trial).values()]
    running = [run for run in runs if run.status == "running"]
    values = list(answer.values.values()) or [value for run in running if (value := run.value(metric)) is not None]

    match answer.status:
        case "completed":
            state = "done"
        case "stopped" if answer.raced:
            state = raced_words(len(answer.values), answer.asked, answer.cutoff or 0.0)
        case "stopped":
            state = stopped_words(answer.epoch, answer.cutoff or 0.0)
        case "diverged":
            state = f"diverged at {answer.epoch}"
        case "incomplete":
            state = f"failed: {answer.reason}" if answer.reason else "not counted: of other code"
        case _ if running:
            state = "running" if alive else "interrupted"
        case _:
            state = "waiting" if alive else "unfinished"
    diverged = sum(run.status == "diverged" for run in runs)
    if diverged and answer.status != "diverged":  # each counts as chance
        state += f", {diverged} of {len(runs)} diverged"
    if trial.role == "trial" and (chosen := history.tuning.chosen_trial(trial.name)):
        state += f", tuned as {chosen.label}"

    return TrialSummary(
        label=trial.label,
        name=trial.name,
        values=without_sources(trial.values) if trial.role != "parent" else {},
        done=sum(run.answered and not run.left_out for run in runs),
        asked=len(runs),
        epoch=max((run.epoch for run in running), default=answer.epoch),
        epochs=trial.recipe.optimizer.trained_epochs,
        mean=sum(values) / len(values) if values else None,
        std=stdev(values) if len(values) > 1 else None,
        state=state,
        metric="" if metric == history.edition.study.score.metric else metric,
    )


def out_of_race(rows: Iterable[TrialResult]) -> str:
    """Returns words for the trials that the race ended, by how many seeds they got: `“a” and “b” after 3 seeds`."""
    by_seeds: dict[int, list[str]] = {}
    for row in rows:
        if row.answer.raced:
            by_seeds.setdefault(len(row.answer.values), []).append(quoted(row.name))
    return "; ".join(f"{listed(names)} after {plural(seeds, 'seed')}" for seeds, names in sorted(by_seeds.items()))


class Training(NamedTuple):
    """One training of a study: the trial's label, the seed, the run's key, and a digest of the code that trained it."""

    label: str
    seed: int
    key: str
    code: str


@dataclass(frozen=True, repr=False)
class RunResult:
    """One run: its state in the study, and its answer (its stored outcome), which is None if there is none."""

    run: Run
    code: str
    state: RunState
    answered: Answered | None

    def __repr__(self) -> str:
        reason = f" ({self.reason})" if self.reason else ""
        return f"seed {self.run.seed}: {self.state.status}{reason}, {plural(self.epochs, 'epoch')}, key {self.run.key}"

    @cached_property
    def curve(self) -> Curve:
        """The measured values of each epoch, in the order of epochs."""
        return self.state.values if self.answered is None else self.answered.curve

    @property
    def epochs(self) -> int:
        """The number of the last epoch that was measured; 0 before the first."""
        return max(self.curve, default=0)

    @property
    def seconds(self) -> float:
        """The time that its epochs took, in seconds; of runs that trained as one, its part of that time."""
        return sum(values.get("time/epoch_s", 0.0) / values.get(TOGETHER, 1.0) for values in self.curve.values())

    @property
    def device_s(self) -> float:
        """The time for which its devices were in use, summed over its workers. Units: seconds."""
        environment = self.answered.environment if self.answered is not None else {}
        workers = [int(counts.get("workers") or 0) for counts in (self.state.placement, environment)]
        return self.seconds * max(1, *workers)

    @property
    def images_per_s(self) -> float | None:
        """How many training images it trained per second, over all its epochs; None if an epoch lacks this number.

        If it trained as one with other runs, the images of all of them count.
        """
        rates = [values.get("train/images_per_s", 0.0) * values.get(TOGETHER, 1.0) for values in self.curve.values()]
        return harmonic_mean(rates) if rates and all(rates) else None

    @property
    def together(self) -> bool:
        """True if it trained with other runs as one model."""
        return any(TOGETHER in values for values in self.curve.values())

    @property
    def reason(self) -> str:
        """The reason why it did not complete; empty if it did."""
        if self.answered is not None and isinstance(self.answered.outcome, Diverged):
            return f"diverged in epoch {self.answered.outcome.epoch}: {self.answered.outcome.reason}"
        if self.state.left_out:
            return left_out_words(self.state.cutoff or 0.0)
        if self.state.status == "stopped":
            return stopped_words(self.epochs, self.state.cutoff or 0.0)
        return self.state.reason if self.state.status == "failed" else ""

    def final(self, metric: str) -> float | None:
        """Returns a metric at the last measured epoch; None if it was not measured there."""
        return self.curve[self.epochs].get(metric) if self.curve else None


@dataclass(frozen=True, repr=False)
class TrialResult:
    """One trial: `runs` has its runs by seed. `validation` and `test` have the scores; a diverged seed is at chance.

    `test_sizes` has the test scores at each further side of images. Units: pixels. `weights` has the file of weights of
    each answered run, by seed, and `probes` those of the completed runs. `without_weights` says why there are no
    weights, if a result was fetched from another machine. `study` is the id of the study, and `data` the folder of
    known data sets.
    """

    trial: Trial
    answer: TrialAnswer
    runs: dict[int, RunResult]
    validation: Scores
    test: Scores
    test_sizes: dict[int, Scores]
    weights: dict[int, Path]
    probes: dict[int, RunProbes]
    study: str
    data: Path
    find_run_id: Callable[[Training], str]
    without_weights: str = ""

    def __repr__(self) -> str:
        role = "" if self.trial.role == "trial" else f" ({self.trial.role})"
        scores = (("validation", self.validation), ("test", self.test))
        means = [f"{name} {spread(values.mean, values.std)}" for name, values in scores if values.mean is not None]
        seeds = f"{self.answer.status}, {self.validation.n} of {plural(self.answer.asked, 'seed')}"
        return ", ".join([f"#{self.trial.label} {self.name}{role}: {seeds}", *means])

    @property
    def recipe(self) -> Recipe:
        """The recipe, all values that define the training."""
        return self.trial.recipe

    @property
    def name(self) -> str:
        """The name of the arm, or the values of the search's point in short form."""
        return self.trial.name

    @property
    def seconds(self) -> float:
        """The time that all its runs took, in seconds."""
        return sum(run.seconds for run in self.runs.values())

    @property
    def reason(self) -> str:
        """The first reason why a seed did not complete; empty if there is none."""
        return next((run.reason for run in self.runs.values() if run.reason), "")

    def model(self, seed: int | None = None, image_size: int | None = None, *, ema: bool = False) -> Host:
        """Returns the trained model of a seed (default: `best_seed`) with its weights, in evaluation mode, on the CPU.

        It takes normalized pixels; `predict` takes images. `image_size` builds it for images of another side, in
        pixels. `ema` takes the moving average of the weights, by default of the seed whose average has the highest
        validation score.
        Raises: LocusError if no weights were kept; SpecError if the model cannot take images of that side.
        """
        from trainables.training.trained import leave_out_initial_values
        from trainables.weights.transfer import at_size

        trained: Host = self.trained(seed, ema=ema).model.requires_grad_()
        if image_size is None:
            return trained
        resized = at_size(trained, self.recipe, image_size)
        leave_out_initial_values(resized)
        return resized

    def trained(self, seed: int | None = None, *, ema: bool = False) -> TrainedModel:
        """Returns the model of a seed with all that a prediction needs: it takes images, and normalizes them itself.

        Raises: LocusError if no weights were kept.
        """
        from trainables.data.class_names_torch import class_names
        from trainables.training.checkpoint import read
        from trainables.training.normalize import pixel_statistics
        from trainables.training.pictures import white
        from trainables.training.trained import Facts, TrainedModel

        chosen, path = self._kept(seed, ema)
        run, data = self.runs[chosen], self.recipe.data
        named = {name: value for name, value in run.curve[run.epochs].items() if name.startswith(("val/", "test/"))}
        facts = Facts(
            recipe=self.recipe,
            seed=chosen,
            classes=class_names(data, self.data),
            image_size=data.size,
            white=white(data),
            normalize=pixel_statistics(self.recipe),
            averaged=ema,
            scores={name: value for name, value in named.items() if name.endswith(of_ema("")) is ema},
            study=self.study,
            trial=self.name,
            key=run.run.key,
            code=run.code,
            locus=version("locus"),
        )
        return TrainedModel(facts, read(path))

    def predict(self, images: Pictures, seed: int | None = None, *, ema: bool = False) -> Predictions:
        """Returns what the trained model of a seed (by default `best_seed`) predicts for one image or several.

        `images` are paths, Pillow's images, arrays or tensors (`TrainedModel.predict`).
        Raises: LocusError as `trained` does, and for an image that cannot be read or does not fit.
        """
        return self.trained(seed, ema=ema).predict(images)

    def median_cost(self, of: Callable[[RunResult], float | None]) -> float | None:
        """Returns the median of a cost over the completed runs; None if one of them lacks it, or none completed.

        `of` returns the cost of a run.
        """
        costs = [of(run) for run in self.runs.values() if run.state.status == "completed" and run.seconds > 0]
        present = [cost for cost in costs if cost is not None]
        return median(present) if present and len(present) == len(costs) else None

    @property
    def best_seed(self) -> int:
        """The seed with the highest validation score of those whose weights were kept; the first of equal ones.

        Raises: LocusError if no weights were kept.
        """
        return self._kept(None, ema=False)[0]

    @property
    def run_id(self) -> str:
        """The id of the MLflow run of the best seed.

        Raises: LocusError if no weights were kept, and if MLflow has none or that of another training, or is not there.
        """
        seed = self.best_seed
        run = self.runs[seed]
        return self.find_run_id(Training(self.trial.label, seed, run.run.key, run.code))

    def kept_seeds(self, *, ema: bool = False) -> list[int]:
        """Returns the seeds whose weights were kept; with `ema`, those whose moving average of the weights was kept."""
        return [seed for seed, path in self.weights.items() if (averaged(path) if ema else path).exists()]

    def _kept(self, seed: int | None, ema: bool) -> tuple[int, Path]:
        """Returns a seed whose weights were kept, and the file of the weights, after a check that it is undamaged.

        If `seed` is None, it takes the seed whose weights have the highest validation score, the first of equal ones.
        """
        kept = self.kept_seeds(ema=ema)
        if not kept or (seed is not None and seed not in kept):
            holds = "one kept" if seed is None else f"seed {seed}"
            kind = "averaged weights" if ema else "weights"
            none = ema and self.recipe.optimizer.ema_decay is None
            why = ": optimizer.ema_decay lets a run keep them" if none else self.without_weights
            raise LocusError(f"{kind} of {self.name!r} must hold {holds}, got seeds {kept or 'none'}{why}")
        scores: Mapping[int, float | None] = self.validation.values
        if ema:
            scores = {seed: run.final(of_ema(self.trial.score.metric)) for seed, run in self.runs.items()}
        if seed is None:
            seed = max(kept, key=lambda kept_seed: -math.inf if (score := scores.get(kept_seed)) is None else score)
        path = averaged(self.weights[seed]) if ema else self.weights[seed]
        require_sound(path)
        return seed, path

    def probe(self, name: str, seed: int | None = None) -> Probed:
        """Returns what a probe finds in a seed's run (by default the first completed), before training and after it.

        It is computed from the kept weights at the first call, and read afterwards; nothing is trained.
        Raises: LocusError for an unknown probe, and where the run has no weights.
        """
        chosen = next(iter(self.probes), None) if seed is None else seed
        if chosen is None or chosen not in self.probes:
            holds = "one that completed" if seed is None else f"seed {seed}"
            raise LocusError(f"runs of {self.name!r} must hold {holds}, got seeds {[*self.probes] or 'none'}")
        return self.probes[chosen](name)

    def value(self, path: str) -> Any:
        """Returns the recipe's value at a path; if the recipe lacks this field, the value that the trial sets, or None.

        For example, a trial sets `model.name`, and its recipe has the numbers of that model instead.
        """
        try:
            return self.recipe.get(path)
        except SpecError:
            return self.trial.values.get(path)


def collect(history: History, outcomes: Outcomes, find_run_id: Callable[[Training], str]) -> list[TrialResult]:
    """Returns the results of all trials of a study, parents too, in the order in which they were added."""
    return [_trial(history, outcomes, trial, find_run_id) for trial in history.trials]


def _trial(history: History, outcomes: Outcomes, trial: Trial, find_run_id: Callable[[Training], str]) -> TrialResult:
    """Returns the result of one trial."""
    runs, probes = {}, {}
    for seed, run in history.runs(trial).items():
        code, state = history.code(run), history.state(run)
        answered = outcomes.of_run(run, code, state.values) if state.status in ("completed", "diverged") else None
        runs[seed] = RunResult(run, code, state, answered)
        if answered is not None and isinstance(answered.outcome, Completed):
            parent = run.parents.get("init")  # with its weights as the run had them
            weights_of_parent = None if parent is None else outcomes.weights(parent.key, history.code(parent))
            probes[seed] = RunProbes(outcomes, answered, weights_of_parent)
    answer, diverged = history.answer(trial), diverged_seeds(history, trial)

    def tested(metric: str) -> Scores:
        """Returns the test scores of the trial in one metric."""
        finals = {seed: run.final(metric) for seed, run in runs.items() if run.state.status == "completed"}
        return scores_of(trial, "test", finals, diverged, answer.asked)

    return TrialResult(
        trial=trial,
        answer=answer,
        runs=runs,
        validation=validation_scores(history, trial, answer),
        test=over_other_images(tested(trial.score.test), trial.recipe.data, probes),
        test_sizes={side: tested(at_image_size(trial.score.test, side)) for side in trial.recipe.test_sizes},
        weights={seed: outcomes.weights(run.run.key, run.code) for seed, run in runs.items() if run.answered},
        probes=probes,
        study=history.edition.id,
        data=outcomes.data,
        find_run_id=find_run_id,
        without_weights=outcomes.without_weights,
    )
