"""Finds the runs of a study that are known, not chosen yet or lost, and predicts how long the rest of the study takes.

A forecast itself reads no files. `lost_answers` and `measured_times_and_peaks` read the files of answers, the stored
outcomes of runs.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from itertools import islice
from statistics import fmean, median

from search_spaces.plans.grid import grid, is_finite
from search_spaces.plans.search import STARTUP_TRIALS
from search_spaces.roles import COMPARED, CONFIRMATIONS, CONFIRMED, FIRST_SEEDS, POINTS, Role
from search_spaces.study import Edition, Trial
from service.planning.placement import Placement, one_of_fused_gib
from service.planning.schedule import Done, next_action, unplanned
from service.planning.stopping import ended_answer
from service.storage.facts import FailedWith, RunState
from service.storage.history import History, ancestors
from service.storage.outcomes import Outcomes
from trainables.recipe import Recipe, Run
from trainables.recipe.cost import estimate_cost
from trainables.recipe.outcome import TOGETHER
from trainables.spec import digest


def known_trials(edition: Edition) -> list[Trial]:
    """Returns the arms of an ablation, or the points that a search tries first."""
    plan = edition.study.plan
    if plan.arms:
        return edition.arms()
    return [edition.trial(number, point) for number, point in enumerate(plan.first)]


@dataclass(frozen=True)
class Unproposed:
    """A recipe for each run of the `points` that are not chosen yet, at most, and for each of the runs' `parents`.

    The recipe is that of the point's arm or, in a search, of the base. Confirmations are points here, and so are the
    arms whose tuning has not ended. If a point changes its parent, there are more parents than listed here.
    """

    points: list[Recipe]
    parents: list[Recipe]

    @property
    def recipes(self) -> list[Recipe]:
        return self.points + self.parents


def unproposed(history: History) -> Unproposed:
    """Returns the recipes of the runs that a study will train beside those that its history knows."""
    edition, plan = history.edition, history.edition.study.plan
    points: list[tuple[Recipe, int]] = []

    def add(recipe: Recipe, role: Role, seeds: int) -> None:
        first = FIRST_SEEDS.get(role, 0)
        points.extend((recipe, seed) for seed in range(first, first + seeds))

    tune = edition.study.plan.tune
    if tune:
        arms = {name: edition.study.recipe(values) for name, values in plan.arms.items()}
        for point in unplanned(history):
            add(arms[point.arm], "tuning", tune.seeds)
        for name in history.tuning.untuned_arms():
            add(arms[name], "trial", history.seeds)
    elif not plan.arms:
        most, rivals = most_trials(history), min(most_trials(history), history.rival_count)
        new, random = max(most - len(history.of("trial")), 0), max(rivals - len(history.of("rival")), 0)
        # Where every point diverged, there is nothing to confirm.
        if new + random or not (history.confirms or isinstance(next_action(history, set()), Done)):
            confirmed = min(CONFIRMED + bool(plan.first), most), min(CONFIRMED, rivals)
            for role, count in zip((*POINTS, *CONFIRMATIONS), (new, random, *confirmed), strict=True):
                for _ in range(count):
                    add(edition.study.base, role, history.seeds)

    recipes = [recipe for recipe, _ in points]
    if not any(recipe.parents for recipe in {id(recipe): recipe for recipe in recipes}.values()):
        return Unproposed(recipes, [])
    runs = [Run(recipe=recipe, seed=seed) for recipe, seed in points]
    listed = {parent.key for trial in history.trials for run in history.asked(trial) for parent in ancestors(run)}
    parents = {parent.key: parent.recipe for run in runs for parent in ancestors(run) if parent.key not in listed}
    return Unproposed(recipes, [*parents.values()])


def most_trials(history: History) -> int:
    """Returns how many trials a study can have: as many as asked for or, in a search, as its space has points."""
    plan, count = history.edition.study.plan, history.trial_count
    if plan.space is None or not (is_finite(plan.space) or plan.sampler == "grid"):
        return count
    extra = len(plan.first) if plan.sampler == "grid" else 0  # the first points need not be points of the grid
    return sum(1 for _ in islice(grid(plan.space, history.edition.study.base), max(count - extra, 0))) + extra


def blind(history: History, max_concurrent: int) -> str:
    """Returns a warning that so many concurrent runs leave TPE hardly a point to choose; "" if it chooses more.

    About as many points as runs train together have not ended, and TPE knows no score of them.
    """
    plan, most = history.edition.study.plan, most_trials(history)
    if plan.sampler != "tpe" or not len(history.of("trial")) < most > STARTUP_TRIALS:
        return ""
    ended = [trial for trial in history.of("trial") if ended_answer(history, trial).status != "open"]
    if max(len(ended), most - max_concurrent) >= STARTUP_TRIALS:
        return ""
    return (
        f"TPE chooses no point or hardly one, so this is a random search: with {max_concurrent} concurrent runs "
        f"{most} points are proposed before {STARTUP_TRIALS} have ended; --max-concurrent "
        f"{(most - STARTUP_TRIALS + 1) // 2} lets it choose half of the others"
    )


LOST = "its answer or its weights are gone, damaged or replaced; it is trained again, or takes the answer that is there"


def lost_answers(history: History, outcomes: Outcomes) -> list[FailedWith]:
    """Returns facts for the journal that let runs with lost answers train again, or take the answers that are there.

    An answer counts as lost if its file is missing, damaged or replaced by one with other numbers: another study may
    train the run again for its weights. Weights are read only if some run will start from them.
    Cost: 0.1 ms a run, 0.4 ms where it has 100 epochs.
    """
    runs = {run.key: run for trial in history.trials for run in history.runs(trial).values()}
    lost = {
        key: run
        for key, run in runs.items()
        if (state := history.state(run)).status in ("completed", "diverged")
        and outcomes.of_run(run, history.code(run), state.values) is None
    }
    begun = [run for trial in history.trials for run in history.asked(trial)]
    todo = [*lost.values(), *(run for run in begun if not history.state(run).answered)]
    seen = {*lost}
    while todo:
        for parent in todo.pop().parents.values():
            if parent.key not in seen:
                seen.add(parent.key)
                completed = history.state(parent).status == "completed"
                if completed and not outcomes.has_sound_weights(parent.key, history.code(parent)):
                    lost[parent.key] = parent
                    todo.append(parent)
    return [FailedWith(run=key, code=history.code(run), reason=LOST, counts=False) for key, run in lost.items()]


def unlisted_arms(history: History) -> list[Trial]:
    """Returns the arms of an ablation that its journal does not list yet, without those whose tuning goes on."""
    listed = {trial.name for trial in history.of("trial")}
    return [arm for arm in history.tuning.known_arms() if arm.name not in listed]


def known_runs(history: History) -> list[Run]:
    """Returns the runs of a study whose recipes are known, each once, with their parents."""
    runs: dict[str, Run] = {}
    for trial in [*history.trials, *unlisted_arms(history)]:
        runs |= runs_of(history, trial)
    return [*runs.values()]


def runs_of(history: History, trial: Trial) -> dict[str, Run]:
    """Returns the runs of a trial, and all runs whose weights they need, by key."""
    runs = history.asked(trial)
    return {run.key: run for child in runs for run in (*ancestors(child), child)}


def planned_runs(history: History) -> int:
    """Returns how many runs a study will have at most; the plan, `status` and MLflow show this number."""
    return len(known_runs(history)) + len(unproposed(history).recipes)


TIMELESS = (
    "lr", "weight_decay", "epochs", "schedule", "warmup", "min_lr", "betas", "eps", "layer_decay", "lr_base_size",
    "momentum", "nesterov", "adjust_lr_fn", "ema_warmup", "lengths", "cooldown",
)  # fmt: skip
"""The fields of an optimizer that do not change how long an epoch takes."""


@dataclass(frozen=True)
class RunTime:
    """How many seconds an epoch of one run took. `work` is that of `work_of`; `epochs` counts the whole run's."""

    work: str
    epochs: int
    epoch_s: float


def work_of(recipe: Recipe) -> str:
    """Returns a digest of what in a recipe changes the time of an epoch. The learning rate, for example, does not."""
    values = {name: value for name, value in recipe.identity().items() if name != "init"}
    steps = {name: value for name, value in values["optimizer"].items() if name not in TIMELESS}
    return digest({**values, "optimizer": steps})


def run_time(
    recipe: Recipe,
    curve: Iterable[Mapping[str, float]],
    work: Callable[[Recipe], str] = work_of,
    average: Callable[[Sequence[float]], float] = median,
) -> RunTime | None:
    """Returns the time of a run's epochs from the metrics that they measured; None if no epoch was measured.

    It is the median, because the first epoch may take much longer, and so does the last, which has the tests. Where
    nothing else counts the tests, the `average` of a whole run is the mean.
    """
    seconds = [values["time/epoch_s"] for values in curve if "time/epoch_s" in values]
    return RunTime(work(recipe), recipe.optimizer.trained_epochs, average(seconds)) if seconds else None


class EpochTimes:
    """Predicts how long an epoch of a recipe takes, from runs of the same work or, without one, from all runs.

    For runs of the same work it is the median, because a run may have waited for the machine. The usual time is the
    mean over the kinds of work, because a sum is predicted with it. A kind is weighted by the epochs of its runs: the
    only epoch of a short run also takes the time of its tests.
    """

    def __init__(self, times: Iterable[RunTime | None], work: Callable[[Recipe], str] = work_of) -> None:
        self._work = work
        kinds: dict[str, list[RunTime]] = {}
        for time in times:
            if time is not None:
                kinds.setdefault(time.work, []).append(time)
        self._alike = {work: median(time.epoch_s for time in alike) for work, alike in kinds.items()}
        epochs = [fmean(time.epochs for time in alike) for alike in kinds.values()]
        self.usual = fmean(self._alike.values(), weights=epochs) if kinds else None

    def __call__(self, recipe: Recipe) -> float | None:
        """Returns how many seconds an epoch of a recipe takes; None if no epoch of any recipe was measured."""
        return self._alike.get(self._work(recipe), self.usual)


def side_by_side(seconds: Sequence[float], max_concurrent: int) -> float:
    """Returns how many seconds runs of these times take together. A run begins as soon as an earlier run has ended."""
    ends = [0.0] * max(1, min(max_concurrent, len(seconds)))
    for duration in seconds:
        heapreplace(ends, ends[0] + duration)
    return max(ends)


@dataclass(frozen=True)
class Left:
    """How many runs are `done`, how many a study has in `total` at most, and the `seconds` left; None: not known."""

    done: int
    total: int
    seconds: float | None


@dataclass(frozen=True)
class Span:
    """When a run began and ended, and how long it took beside its usual epochs: its start, its tests and what its
    first epoch prepares. Units: seconds.
    """

    begun: float
    end: float
    beside: float


class Forecast:
    """Predicts how much of a study is left, before it runs and while it runs. It reads each ended trial only once.

    An epoch is predicted to take as long as in runs of the same work so far, or in all runs of the study on average. To
    this come the start and the tests of a run and the wait for its place, which take as long as in the runs that have
    ended.
    Runs that train together are assumed to finish equally many epochs. `earlier` are the times of epochs in other
    studies, for use before the first epoch of this one. Without them no time is predicted before costs were measured
    or two runs have ended: one run says little of the others.
    """

    def __init__(self, history: History, earlier: EpochTimes | None = None) -> None:
        self.history = history
        self._earlier = earlier
        self._works: dict[int, tuple[Recipe, str]] = {}
        self._forget()

    def _forget(self) -> None:
        """Drops all that was read of ended trials, because the history has invalidated something."""
        self._invalidations = self.history.invalidations
        self._settled: set[str] = set()
        self._runs: dict[str, bool] = {}
        """Whether each run of the settled trials was answered, by key. A settled trial needs no more training."""
        self._times: list[RunTime] = []
        """The times of the runs of settled trials."""
        self._spans: list[Span] = []
        """The spans of those runs of settled trials that this study has trained."""

    def __call__(self, max_concurrent: int, reused: Collection[str] = ()) -> Left:
        """Returns what is left now. `reused` holds the keys of runs that take no time: other studies trained them."""
        history = self.history
        if self._invalidations != history.invalidations:
            self._forget()
        runs = self._unsettled_runs()
        times, spans = self._measured(runs.values())
        times, spans = [*self._times, *times], [*self._spans, *spans]

        works = {time.work for time in times}
        times += [time for time in self._costs() if time.work not in works]
        epoch_times = EpochTimes(times, self._work)
        if self._earlier and epoch_times.usual is None:
            epoch_times = self._earlier
        usual = median([span.beside for span in spans] or [0.0])
        # How long a place stays empty between two runs. A study that was interrupted for a night changes no median.
        ends = sorted(span.end for span in spans)
        earlier_ends = [(span.begun, bisect_right(ends, span.begun)) for span in spans]
        wait = median([begun - ends[count - 1] for begun, count in earlier_ends if count] or [0.0])

        todo = [run for run in runs.values() if not history.state(run).answered and run.key not in reused]
        ahead = unproposed(history).recipes
        left = [(run.recipe, history.state(run)) for run in todo] + [(recipe, RunState()) for recipe in ahead]
        seconds: list[float] = []
        for recipe, state in left:
            if (epoch_s := epoch_times(recipe)) is not None:
                beside = max(usual - _beside(state, epoch_s), 0.0) if state.status == "running" else usual + wait
                seconds.append((recipe.optimizer.trained_epochs - state.epoch) * epoch_s + beside)
        is_known = not left or len(spans) > 1 or history.costs.arms or self._earlier
        return Left(
            done=sum(self._runs.values()) + len(runs) - len(todo),
            total=len(self._runs) + len(runs) + len(ahead),
            seconds=side_by_side(seconds, max_concurrent) if is_known and len(seconds) == len(left) else None,
        )

    def _unsettled_runs(self) -> dict[str, Run]:
        """Returns the runs of unsettled trials, and remembers the trials that were settled since the last call."""
        history, waiting = self.history, self.history.waiting()
        for trial in history.trials:
            if trial.role in COMPARED and trial.label not in waiting and trial.label not in self._settled:
                self._settled.add(trial.label)
                runs = runs_of(history, trial)
                times, spans = self._measured([run for key, run in runs.items() if key not in self._runs])
                self._times += times
                self._spans += spans
                self._runs |= {key: history.state(run).answered for key, run in runs.items()}
        unsettled: dict[str, Run] = {}
        for trial in [*history.trials, *unlisted_arms(history)]:
            if trial.label not in self._settled:
                unsettled |= runs_of(history, trial)
        return {key: run for key, run in unsettled.items() if key not in self._runs}

    def _measured(self, runs: Iterable[Run]) -> tuple[list[RunTime], list[Span]]:
        """Returns the times of runs, and the spans of those runs that this study has trained to their end.

        A reused run has the times of the study that trained it. If a run had several attempts, the last one counts.
        """
        times, spans = [], []
        for run in runs:
            state = self.history.state(run)
            time = run_time(run.recipe, (each.values for each in state.curve.values()), self._work)
            times += [time] if time else []
            if state.answered and not state.reused and state.begun is not None and state.last is not None:
                spans.append(Span(state.begun, state.last, _beside(state, time.epoch_s if time else 0.0)))
        return times, spans

    def _costs(self) -> Iterator[RunTime]:
        """Yields a time for each arm whose cost was measured before the study trained its runs."""
        for arm in self.history.edition.arms() if self.history.costs.arms else []:
            if cost := self.history.costs.arms.get(arm.name):
                counts, count = arm.recipe.data.image_counts, arm.recipe.optimizer.trained_epochs
                tests = counts.test * sum((side / arm.recipe.data.size[1]) ** 2 for side in arm.recipe.test_sizes)
                predicted = counts.validation + (counts.test + tests) / count
                epoch_s = counts.train * median(cost.train_s) + predicted * median(cost.predict_s)
                yield RunTime(self._work(arm.recipe), count, epoch_s)

    def _work(self, recipe: Recipe) -> str:
        """Returns `work_of` a recipe, from memory after the first time. The recipe is kept, too, so its `id` stays."""
        if id(recipe) not in self._works:
            self._works[id(recipe)] = (recipe, work_of(recipe))
        return self._works[id(recipe)][1]


def _beside(state: RunState, epoch_s: float) -> float:
    """Returns how many seconds a run has taken since it last began, without `epoch_s` for each of its epochs."""
    if state.begun is None or state.last is None:
        return 0.0
    epochs = sum(each.time >= state.begun for each in state.curve.values())
    return max(state.last - state.begun - epochs * epoch_s, 0.0)


def run_peaks(history: History) -> list[float]:
    """Returns the memory of a run in each epoch that this study has measured. Units: GiB."""
    return _peaks(epoch.values for state in history.states.values() for epoch in state.curve.values())


def _peaks(epochs: Iterable[Mapping[str, float]]) -> list[float]:
    """Returns the memory of one run in each epoch that measured it, also if several runs trained as one model."""
    name = "memory/peak_gib"
    return [one_of_fused_gib(values[name], int(values.get(TOGETHER, 1))) for values in epochs if name in values]


def measured_times_and_peaks(
    history: History, outcomes: Outcomes, placement: Placement | None = None
) -> tuple[EpochTimes, list[float]]:
    """Returns the epoch times of runs, and the memory of a run in each epoch in GiB.

    They come from this study or, before its first epoch, from the newest answers of the home that have the same data,
    model and kind of device (CPU or GPU).
    """
    states = [(run.recipe, history.state(run)) for run in known_runs(history)]
    times = EpochTimes(run_time(recipe, (epoch.values for epoch in state.curve.values())) for recipe, state in states)
    if times.usual is not None:
        return times, run_peaks(history)
    base = history.edition.study.base
    latest = sorted(outcomes.folder.glob("*/*.json"), key=lambda path: path.stat().st_mtime)[-60:]
    curves = []
    for path in latest:
        answer = outcomes.get(path.parent.name, path.stem)
        if answer and (answer.run.recipe.data, answer.run.recipe.model) == (base.data, base.model):
            device = answer.environment.get("device", "cpu")
            if placement is None or (device == "cpu") == (placement.device == "cpu"):
                curves.append((answer.run.recipe, [epoch.values for epoch in answer.outcome.curve]))
    times = EpochTimes(run_time(recipe, curve, average=fmean) for recipe, curve in curves)
    return times, [peak for _, curve in curves for peak in _peaks(curve)]


def run_memory(history: History, outcomes: Outcomes, grad_checkpointing: bool = False) -> float:
    """Returns the memory of the largest run, which decides how many runs share a GPU.

    It is the largest of the measured memory and of the memory predicted for each arm or first point. Units: GiB.
    """
    study = history.edition.study
    recipes = [trial.recipe for trial in known_trials(history.edition)] or [study.base]
    costs = [estimate_cost(recipe, grad_checkpointing) for recipe in recipes]
    _, peaks = measured_times_and_peaks(history, outcomes)
    return max([*peaks, *(cost.memory_bytes / 2**30 for cost in costs)])
