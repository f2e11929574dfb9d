"""Computes the state of a study from its facts: its trials, its runs, and the answer of each trial.

The driver, `status`, the report and MLflow all read this one object. Answers count only if today's code gave them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice

from search_spaces.roles import COMPARED, CONFIRMATIONS, POINTS, Role
from search_spaces.study import Edition, Trial
from service.storage.facts import (
    KEY,
    TRIES,
    ArmTunings,
    Confirms,
    Costed,
    Counts,
    Ended,
    Exhausted,
    Fact,
    FailedWith,
    Measured,
    Opened,
    Planned,
    RunState,
    Started,
    StoppedAt,
    TrialAnswer,
    Tuned,
    add_fact,
    arms_ahead,
    first_left_out,
    misfit,
    shows_verdict,
)
from service.storage.home import Home
from service.storage.journal import UnfitError, read_lines, remedy
from trainables.recipe import Recipe, Run
from trainables.recipe.revisions import code_of
from trainables.spec import SpecError

SETTLED = ("completed", "stopped", "diverged")
"""The statuses of a trial that has ended. They change only if `History.invalidations` goes up."""
TESTED = 3
"""The number of seeds with answers that a trial needs before it takes part in a statistical test."""
ODD = (AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""The errors that Python raises for values that have another form than those of a point."""


OF_A_RUN = (Started, Measured, StoppedAt, FailedWith, Ended)
"""The facts about one run."""


class History:
    """The state of a study, computed from its facts.

    `invalidations` goes up when trials that had
    ended may have to go on: a caller then drops results that it kept of them. `parents` is the number of parents (runs
    that other runs need) that were planned, also of those that no run needs today. `first_seeds` is the number of seeds
    that was asked for first. `costs` is the last measurement of what arms cost. `begun` is the time of the first fact
    about a run, `last` that of the latest fact; `claims_since` holds, by the digest of the claims, the time at which
    they were first stored. Units: times in seconds since 1970.
    """

    def __init__(self, edition: Edition, facts: Iterable[Fact] = ()) -> None:
        self.edition = edition
        self.trials: list[Trial] = []
        self.parents = 0
        self.confirms: tuple[int, ...] = ()
        self.rival_confirms: tuple[int, ...] = ()
        self.seeds = self.first_seeds = edition.study.seeds
        self.trials_asked = edition.study.plan.trials
        self.exhausted: int | None = None
        self.rivals_exhausted: int | None = None
        self.tuning = ArmTunings(edition)
        self.costs = Costed(arms={}, load=0.0, cores=0)
        self._labels: set[str] = set()
        self.states: dict[tuple[str, str], RunState] = {}
        self.last: float | None = None
        self._codes: dict[int, tuple[Recipe, str]] = {}
        self._waiting: dict[str, list[Trial]] | None = None
        self._answers: dict[str, TrialAnswer] = {}
        self.invalidations = 0
        self._facts, self._look_starts, self._least_looks = 0, list[int](), 0
        self._look_by, self._look_ahead = -1, False
        self.begun: float | None = None
        self.claims_since: dict[str, float] = {}
        self._counted: tuple[int, int] | None = None
        for fact in facts:
            self.add(fact)

    @classmethod
    def open(cls, home: Home, edition: Edition) -> History:
        """Returns the history of an edition, read from its journal. Raises: JournalError if it cannot be read."""
        journal, history = home.study(edition.id).journal, cls(edition)
        for number, fact in read_lines(journal):
            try:
                history.add(fact)
            except UnfitError as error:
                raise UnfitError(f"{journal}, line {number}: {error}") from None
        return history

    def add(self, fact: Fact) -> None:
        """Adds one fact. Raises: UnfitError for a fact that does not fit this study, such as one of an unknown arm."""
        self._facts += 1
        if isinstance(fact, Opened):
            if fact.claims:
                self.claims_since.setdefault(fact.claims, fact.time)
            return
        if isinstance(fact, OF_A_RUN):  # nearly all facts
            self._add_to_run(fact)
            return
        if why := misfit(fact, self.edition, self.tuning, self.of):
            raise self._unfit(fact, why)
        self.last = fact.time
        match fact:
            case Planned():
                self._add_trial(fact)
            case Counts(seeds=seeds, trials=trials, looks=looks):
                self._look(seeds, trials or 0, looks, before=self._facts - 1)
                if self._look_starts and self._look_starts[-1] == self._facts - 1:
                    self._look_by = fact.by
                self.seeds, self.trials_asked = seeds, trials or 0
                self._unsettle()
                for state in self.states.values():
                    state.failures = 0
            case Confirms(numbers=numbers, rivals=rivals):
                self.confirms, self.rival_confirms = numbers, rivals
                self._unsettle()  # an extension may replace confirmations
            case Exhausted(trials=trials, rival=True):
                self.rivals_exhausted = trials
            case Exhausted(trials=trials):
                self.exhausted = trials
            case Tuned(arm=arm, number=number):
                self.tuning.chosen[arm] = number
            case Costed():
                self.costs = fact

    def _add_to_run(self, fact: Started | Measured | StoppedAt | FailedWith | Ended) -> None:
        if isinstance(fact, Started):
            waiting = {trial.label for trials in (self._waiting or {}).values() for trial in trials}
            if fact.label not in waiting:
                self._unsettle()  # an answer is gone, and is trained again
        self.begun = self.begun or fact.time
        if (state := self.states.get((fact.run, fact.code))) is None:
            state = self.states[fact.run, fact.code] = RunState()
        if isinstance(fact, FailedWith) and state.answered:
            self._unsettle()  # its answer is lost
        state.last = self.last = fact.time
        add_fact(state, fact)

    def _add_trial(self, fact: Planned) -> None:
        """Adds a trial, unless it is a parent that no run needs because the images have changed.

        If verdicts could be seen before a command adds arms, this counts as one more look (a time at which verdicts
        are computed), however many arms the command adds.
        Raises: UnfitError if the study has no such trial, or has it already.
        """
        arm = fact.name if fact.role == "trial" else fact.tunes
        if arm in arms_ahead(self.edition, self.trials) and fact.by != self._look_by:
            self._look_by, self._look_ahead = fact.by, False
            if shows_verdict(self.edition.study, self._tested(self.seeds)):
                self._look_starts.append(self._facts - 1)
                self._least_looks += bool(self._least_looks)

        self.parents += fact.role == "parent"
        try:
            if fact.role == "parent":
                key = fact.values.get("key")
                if not isinstance(key, str) or not re.fullmatch(KEY, key):
                    raise SpecError(f"a parent must have the key of a run, got {key!r}")
                needed = (parent for run in self._everyone() for parent in ancestors(run))
                if (parent := next((parent for parent in needed if parent.key == key), None)) is None:
                    return
                trial = Trial(
                    role="parent", number=fact.number, name=fact.name, values=fact.values, recipe=parent.recipe
                )
            elif fact.role == "tuning":
                self.tuning.add(trial := self.edition.tuning_trial(fact.tunes, fact.number, fact.values))
            elif self.edition.study.plan.arms:  # the journal's copy holds own encodings as they were
                trial = self.tuning.arm(fact.number, fact.name)
            else:
                trial = self.edition.trial(fact.number, fact.values, fact.name, fact.role)
        except (SpecError, *ODD) as error:
            raise self._unfit(fact, f"its values make no trial ({' '.join(str(error).split())[:200]})") from None
        if trial.label in self._labels:
            raise self._unfit(fact, f"the trial {trial.label} is there already")
        self._labels.add(trial.label)
        self.trials.append(trial)
        if self._waiting is not None and trial.role in self._waiting:
            self._waiting[trial.role].append(trial)

    def _unfit(self, fact: Fact, why: str) -> UnfitError:
        return UnfitError(f"a fact {fact.fact!r} must fit {self.edition.id}, but {why} {remedy(self.edition.id)}")

    def _look(self, seeds: int, trials: int, least: int = 0, *, before: int) -> None:
        """Counts one more look if verdicts could be seen before more seeds or points were asked for.

        `least` is the number of looks before a repair cut the journal: the facts left do not say what was seen, so each
        later request for more counts. `before` is the number of facts before this one.
        """
        earlier, self._counted = self._counted, (seeds, trials)
        self.first_seeds = seeds if earlier is None else self.first_seeds
        if least:
            self._least_looks = least
        elif earlier is not None and (seeds > earlier[0] or trials > earlier[1]):
            if shows_verdict(self.edition.study, self._tested(earlier[0])):
                self._look_starts.append(before)
            self._least_looks += bool(self._least_looks)

    @property
    def looks(self) -> int:
        """The number of times at which verdicts could be seen, the present one included, whatever code gave answers."""
        return max(1 + len(self._look_starts), self._least_looks) + self._look_ahead

    def at_earlier_look(self, home: Home) -> History | None:
        """Returns the history as it was before the present look; None at the first look."""
        if not self._look_starts:
            return None
        lines = read_lines(home.study(self.edition.id).journal)
        return History(self.edition, (fact for _, fact in islice(lines, self._look_starts[-1])))

    def _tested(self, seeds: int) -> list[Trial]:
        """Returns the trials that have answers for `TESTED` of their first `seeds` seeds.

        Answers of any code count, also those that were lost or replaced.
        """
        seen = {key for (key, _), state in self.states.items() if state.answered or state.lost}
        trials = self.of("trial" if self.edition.study.plan.arms else "confirmation")
        return [trial for trial in trials if sum(trial.run(seed).key in seen for seed in trial.seeds(seeds)) >= TESTED]

    def raise_counts(self, edition: Edition) -> None:
        """Raises the counts of seeds and trials to those of an edition, which may have more arms. They never fall."""
        self._unsettle()
        seeds, trials = max(self.seeds, edition.study.seeds), max(self.trials_asked, edition.study.plan.trials)
        looks, seen = self.looks, shows_verdict(edition.study, self._tested(self.seeds))
        self._look(seeds, trials, before=self._facts)
        self._look_ahead = seen and self.looks == looks and bool(self.trials and arms_ahead(edition, self.trials))
        self.seeds, self.trials_asked = seeds, trials

    @property
    def trial_count(self) -> int:
        """The number of trials that the search will have: as many as asked for, at most the points of the space."""
        return self.trials_asked if self.exhausted is None else min(self.trials_asked, self.exhausted)

    @property
    def rival_count(self) -> int:
        """The number of random points that the search will be compared with; 0 if the study asks for none."""
        if not self.edition.study.plan.rival:
            return 0
        return self.trial_count if self.rivals_exhausted is None else min(self.trial_count, self.rivals_exhausted)

    def confirmations(self, role: Role) -> list[Trial]:
        """Returns the confirmations of a role that count; more trials of the study may have replaced earlier ones."""
        numbers = {"confirmation": self.confirms, "rival_confirmation": self.rival_confirms}[role]
        return [trial for trial in self.of(role) if trial.number in numbers]

    def is_replaced(self, trial: Trial) -> bool:
        return trial.role in CONFIRMATIONS and trial not in self.confirmations(trial.role)

    def code(self, run: Run) -> str:
        """Returns the digest of today's code that trains a run; answers of other code do not count."""
        recipe = run.recipe
        if id(recipe) not in self._codes:
            self._codes[id(recipe)] = recipe, code_of(recipe).digest  # the recipe is kept, and so is its id
        return self._codes[id(recipe)][1]

    def state(self, run: Run) -> RunState:
        return self.states.get((run.key, self.code(run))) or RunState()

    def runs(self, trial: Trial) -> dict[int, Run]:
        """Returns the runs of a trial by seed; of a parent, only the runs that another run needs."""
        if trial.role == "parent":
            needed = [parent for run in self._everyone() for parent in ancestors(run)]
            return {run.seed: run for run in needed if run.recipe == trial.recipe}
        tune = self.edition.study.plan.tune if trial.tunes else None
        return {seed: trial.run(seed) for seed in trial.seeds(tune.seeds if tune else self.seeds)}

    def first_run(self, trial: Trial) -> Run:
        """Returns the run of a trial's first seed, which two trials of equal recipes share."""
        return trial.run(trial.seeds(1)[0])

    def asked(self, trial: Trial) -> list[Run]:
        """Returns the runs of a trial that were or will be trained.

        If the trial was stopped, or its first seed diverged, its other runs are skipped.
        """
        runs = list(self.runs(trial).values())
        if trial.role == "parent":
            children = [run for child in self.trials if child.role != "parent" for run in self.asked(child)]
            needed = {parent.key for run in children for parent in ancestors(run)}
            return [run for run in runs if run.key in needed or self.state(run).answered]
        if self.is_replaced(trial):
            return []
        if self.tuning.is_settled(trial):
            return [run for run in runs if self.state(run).answered]
        if self.answer(trial).status in ("stopped", "diverged"):
            return [run for run in runs if self.state(run).was_run]
        return runs

    def unsettled(self, role: str) -> list[Trial]:
        """Returns the trials of a role that may need training. All other trials are remembered, for speed.

        A trial is settled when all its seeds have answers; in a search also when its first seed was stopped or
        diverged, or when a later seed was left out and all seeds before it have answers. Do not ask for parents: a new
        trial may need a parent with one more seed, so a settled parent may need training again.
        """
        waiting, unsettled = (self._waiting or {}).get(role), []
        for trial in self.of(role) if waiting is None else waiting:
            states = [self.state(run) for run in self.runs(trial).values()]
            has_ended = self._is_point(trial) and states[0].status in ("stopped", "diverged")
            is_out = self.races(trial) and first_left_out(states) is not None
            if not (has_ended or is_out or all(state.answered for state in states)):
                unsettled.append(trial)
        self._waiting = {**(self._waiting or {}), role: unsettled}
        return list(unsettled)

    def waiting(self) -> set[str]:
        """Returns the labels of the trials of the roles `COMPARED` that may need training."""
        return {trial.label for role in COMPARED for trial in self.unsettled(role)}

    def _unsettle(self) -> None:
        """Forgets which trials are settled, and their answers; callers see it by `invalidations`."""
        self._waiting = None
        self._answers.clear()
        self.invalidations += 1

    def _is_point(self, trial: Trial) -> bool:
        return not self.edition.study.plan.arms and trial.role in POINTS

    def races(self, trial: Trial) -> bool:
        """Returns whether the study may refuse a trial its next seed: a point, or an arm of an ablation that races."""
        return self._is_point(trial) or (self.edition.study.plan.race and trial.role == "trial")

    def keeps(self, run: Run) -> bool:
        """Returns whether the weights of a run must be kept: the study asks for it, or another run needs them."""
        if "weights" in self.edition.study.keep:
            return True
        return any(run.key == parent.key for child in self._everyone() for parent in ancestors(child))

    def of(self, role: str) -> list[Trial]:
        return [trial for trial in self.trials if trial.role == role]

    def answer(self, trial: Trial) -> TrialAnswer:
        """Returns the answer of a trial, over its seeds.

        In a search, it is stopped or diverged if its first seed is. It is incomplete if a seed failed and none waits.
        """
        if trial.label not in self._answers:
            answer = self._fold(trial)
            if answer.status not in SETTLED or trial.role == "parent":  # a parent may get more runs
                return answer
            self._answers[trial.label] = answer
        return self._answers[trial.label]

    def _fold(self, trial: Trial) -> TrialAnswer:
        runs = self.runs(trial)
        states = {seed: self.state(run) for seed, run in runs.items()}
        values = {}
        for seed, state in states.items():
            value = state.value(trial.score.metric) if state.status in ("completed", "stopped") else None
            if state.status == "diverged":
                value = trial.recipe.data.chance("val")
            if value is not None:
                values[seed] = value
        epoch = max((state.epoch for state in states.values()), default=0)
        reason = next((state.reason for state in states.values() if state.reason), "")

        first = next(iter(states.values()), RunState())
        judged = trial.tunes or self._is_point(trial)
        if judged and first.status in ("stopped", "diverged"):
            return TrialAnswer(first.status, values, len(states), epoch, first.cutoff, first.reason)
        left_out = first_left_out(states.values())
        if left_out and (judged or self.races(trial)):
            return TrialAnswer("stopped", values, len(states), epoch, left_out.cutoff, reason, raced=True)
        if len(values) == len(states):
            return TrialAnswer("completed", values, len(states), epoch, reason=reason)
        waits = not (judged and self.given_up(next(iter(runs.values())))) and not self.tuning.is_settled(trial)
        hopeless = not waits or all(states[seed].answered or self.given_up(run) for seed, run in runs.items())
        return TrialAnswer("incomplete" if hopeless else "open", values, len(states), epoch, reason=reason)

    def given_up(self, run: Run) -> bool:
        """Returns whether a run, or one that it needs, failed too often for this command to try it again."""
        return any(self.state(needed).failures >= TRIES for needed in (run, *ancestors(run)))

    @property
    def failed(self) -> int:
        """The number of runs that were asked for and whose last attempt failed."""
        states = (self.state(run) for trial in self.trials for run in self.asked(trial))
        return sum(state.status == "failed" for state in states)

    @property
    def stale(self) -> int:
        """The number of the study's answers that do not count, because other code than today's gave them."""
        codes = {run.key: self.code(run) for trial in self.trials for run in self.runs(trial).values()}
        answers = [run for run, state in self.states.items() if state.status in ("completed", "diverged")]
        return sum(code != codes.get(key) for key, code in answers)

    def highest(self, count: int = 1, role: Role = "trial") -> list[Trial]:
        """Returns the `count` completed trials of a role with the highest validation means. Earlier ones win ties."""
        answers = [(trial, self.answer(trial)) for trial in self.of(role)]
        complete = [
            (answer.mean or 0.0, -trial.number, trial) for trial, answer in answers if answer.status == "completed"
        ]
        return [trial for _, _, trial in sorted(complete, key=lambda row: row[:2], reverse=True)[:count]]

    def _everyone(self) -> Iterable[Run]:
        """Yields the runs of all trials that are no parents."""
        for trial in self.trials:
            if trial.role != "parent":
                yield from self.runs(trial).values()


def ancestors(run: Run) -> Iterable[Run]:
    """Yields the runs that must be trained before a run: each one before those that it needs itself.

    A run that two others need is yielded twice.
    """
    for parent in run.needs():
        yield parent
        yield from ancestors(parent)
