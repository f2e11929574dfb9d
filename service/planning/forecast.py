"""How much of a study is done, and how long the rest takes, from the runs that were measured. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from statistics import fmean, median

from search_spaces.roles import COMPARED
from search_spaces.study import Trial
from service.planning.runs_ahead import unlisted_arms, unproposed
from service.storage.history import History, ancestors
from trainables.recipe import Recipe, Run
from trainables.spec import digest

TIMELESS = (
    "lr", "weight_decay", "epochs", "schedule", "warmup", "min_lr", "betas", "eps", "layer_decay", "lr_base_size",
    "momentum", "nesterov", "adjust_lr_fn", "ema_warmup",
)  # fmt: skip
"""Values of an optimizer that change no time of an epoch."""


@dataclass(frozen=True)
class RunTime:
    """How long an epoch of one run took.

    `work`: runs of the same work have the same; `epochs`: those that the whole run has. Units: `epoch_s` seconds.
    """

    work: str
    epochs: int
    epoch_s: float


class Works:
    """The work of a recipe, which runs of one time share; each recipe is looked at once, for a study asks often."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Recipe, str]] = {}

    def __call__(self, recipe: Recipe) -> str:
        """Recipes that differ only in what changes no time, such as their rate, have the same."""
        known = self._known.get(id(recipe))
        if known is None:
            known = self._known[id(recipe)] = (recipe, _work(recipe))  # the recipe is kept, and so is its id
        return known[1]


def run_time(
    recipe: Recipe, curve: Iterable[Mapping[str, float]], ended: bool, works: Callable[[Recipe], str] | None = None
) -> RunTime | None:
    """From the metrics of each epoch; None if no epoch was measured.

    Of a run that has ended the mean counts, because the last epoch also takes the time of the tests, which may be
    longer than several epochs. Of a run that goes on it is the median, because the first epoch may take much longer
    than the next ones.
    """
    seconds = [values["time/epoch_s"] for values in curve if "time/epoch_s" in values]
    if not seconds:
        return None
    work = (works or _work)(recipe)
    return RunTime(work, recipe.optimizer.epochs, fmean(seconds) if ended else median(seconds))


class EpochTimes:
    """The time of an epoch of a recipe: of the same work where a run of it was measured, else the usual one.

    Of the same work the median counts, because a run may have waited for the machine. The usual time is the mean over
    the kinds of work, because a sum is predicted with it. A kind counts by the epochs of its runs: the only epoch of a
    short run also takes the time of its tests, and says little of the epochs of a long one. Before the first epoch it
    is `earlier`, that of other studies.
    """

    def __init__(
        self,
        known: Iterable[RunTime | None],
        earlier: float | None = None,
        works: Callable[[Recipe], str] | None = None,
    ) -> None:
        self._works = works or _work
        kinds: dict[str, list[RunTime]] = {}
        for one in known:
            if one is not None:
                kinds.setdefault(one.work, []).append(one)
        self._alike = {work: median(one.epoch_s for one in some) for work, some in kinds.items()}
        epochs = [fmean(one.epochs for one in some) for some in kinds.values()]
        self.usual = fmean(self._alike.values(), weights=epochs) if kinds else earlier

    def __call__(self, recipe: Recipe) -> float | None:
        """Seconds; None if none are known."""
        return self._alike.get(self._works(recipe), self.usual)


def _work(recipe: Recipe) -> str:
    values = {name: value for name, value in recipe.identity().items() if name != "init"}
    steps = {name: value for name, value in values["optimizer"].items() if name not in TIMELESS}
    return digest({**values, "optimizer": steps})


def side_by_side(seconds: Sequence[float], max_concurrent: int) -> float:
    """How long runs of these times take, each begun as soon as one before it has ended."""
    ends = [0.0] * max(1, min(max_concurrent, len(seconds)))
    for one in seconds:
        heapreplace(ends, ends[0] + one)
    return max(ends)


@dataclass(frozen=True)
class Left:
    """Runs that have ended, all that a study will have at most, and the time until the end.

    Units: `seconds`; None before the first epoch. A run that is stopped early ends before.
    """

    done: int
    total: int
    seconds: float | None


@dataclass(frozen=True)
class Span:
    """When a run began and ended, and what it took beside its epochs. Units: seconds."""

    begun: float
    end: float
    beside: float


def start_time(spans: Sequence[Span]) -> float:
    """What a run takes beside its epochs, above all to start. Units: seconds; 0 if no run has ended."""
    return max(median(one.beside for one in spans), 0.0) if spans else 0.0


def wait_time(spans: Sequence[Span]) -> float:
    """How long a place stays empty between two runs. A study that was interrupted for a night changes no median.

    Units: seconds.
    """
    ends = sorted(one.end for one in spans)
    before = [(one.begun, bisect_right(ends, one.begun)) for one in spans]
    return median([begun - ends[count - 1] for begun, count in before if count] or [0.0])


class Forecast:
    """Says how much of a study is left, before it runs and while it runs. It looks only once at a trial that has ended.

    An epoch of a run takes as long as in runs of the same work so far, or those of the study on average. A run takes
    its start, too, and the wait for its place, as the runs that have ended did. Concurrent runs are taken to finish
    equally many epochs. `earlier`: the times of epochs in other studies, before the first epoch of this one.
    """

    def __init__(self, history: History, earlier: EpochTimes | None = None) -> None:
        self.history = history
        self._earlier = earlier or EpochTimes([])
        self._works = Works()
        self._begin()

    def _begin(self) -> None:
        self._invalidations = self.history.invalidations
        self._settled: set[str] = set()
        self._runs: dict[str, bool] = {}
        """The runs of settled trials by their keys, and whether they were answered."""
        self._times: list[RunTime | None] = []
        """Those of the runs of settled trials."""
        self._spans: list[Span] = []
        """Those of the runs of settled trials that were trained here."""

    def __call__(self, max_concurrent: int, reused: Collection[str] = ()) -> Left:
        """Returns what is left now. `reused`: the keys of runs whose answers other studies have; they take no time."""
        history = self.history
        if self._invalidations != history.invalidations:
            self._begin()
        self._settle()
        runs: dict[str, Run] = {}
        for trial in [*history.trials, *unlisted_arms(history)]:
            if trial.label not in self._settled:
                runs |= _known(history, trial)
        runs = {key: run for key, run in runs.items() if key not in self._runs}
        own = EpochTimes([*self._times, *(self._time(run) for run in runs.values())], works=self._works)
        times = self._earlier if own.usual is None else own
        todo = [run for run in runs.values() if not history.state(run).answered and run.key not in reused]
        ahead = unproposed(history).recipes
        spans = [*self._spans, *(span for run in runs.values() if (span := self._span(run)))]
        start, wait = start_time(spans), wait_time(spans)
        left = [(run.recipe, *self._left(run, start, wait)) for run in todo]
        left += [(recipe, recipe.optimizer.epochs, start + wait) for recipe in ahead]
        seconds = [epochs * time + more for recipe, epochs, more in left if (time := times(recipe)) is not None]
        return Left(
            done=sum(self._runs.values()) + len(runs) - len(todo),
            total=len(self._runs) + len(runs) + len(ahead),
            seconds=side_by_side(seconds, max_concurrent) if len(seconds) == len(left) else None,
        )

    def _settle(self) -> None:
        """Remembers the trials that were settled since the last call."""
        history, waiting = self.history, self.history.waiting()
        for trial in history.trials:
            if trial.role in COMPARED and trial.label not in waiting and trial.label not in self._settled:
                self._settled.add(trial.label)
                runs = _known(history, trial)
                new = [run for key, run in runs.items() if key not in self._runs]
                self._times += [self._time(run) for run in new]
                self._spans += [span for run in new if (span := self._span(run))]
                self._runs |= {key: history.state(run).answered for key, run in runs.items()}

    def _left(self, run: Run, start: float, wait: float) -> tuple[int, float]:
        """The epochs that a run has yet to train, and the seconds that it takes beside them."""
        state = self.history.state(run)
        epochs = run.recipe.optimizer.epochs - state.epoch
        if state.status != "running":
            return epochs, start + wait
        return epochs, 0.0 if state.curve else start

    def _span(self, run: Run) -> Span | None:
        """Of a run that was trained here to its end; its last try counts, if it had several."""
        state = self.history.state(run)
        if not state.answered or state.reused or state.begun is None or state.last is None:
            return None
        epochs = [one.values.get("time/epoch_s", 0.0) for one in state.curve.values() if one.time >= state.begun]
        return Span(state.begun, state.last, state.last - state.begun - sum(epochs))

    def _time(self, run: Run) -> RunTime | None:
        """A reused run has the times of its own study."""
        state = self.history.state(run)
        return run_time(run.recipe, (epoch.values for epoch in state.curve.values()), state.answered, self._works)


def _known(history: History, trial: Trial) -> dict[str, Run]:
    """The runs of a trial and those that they need, by key."""
    runs = history.asked(trial)
    return {run.key: run for one in runs for run in (*ancestors(one), one)}
