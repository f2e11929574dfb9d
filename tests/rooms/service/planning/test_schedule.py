"""What comes next: a table of situations, and a law over random interleavings, failures and divergences."""

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study, Trial
from service.planning.schedule import (
    Assign,
    Confirm,
    Done,
    MarkDiverged,
    PlanArms,
    Propose,
    RegisterParent,
    Wait,
    next_action,
)
from service.storage.history import History
from service.storage.journal import Confirms, Counts, Ended, FailedWith, Measured, Planned, Started, StoppedAt
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe, Run

BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 4})
POINTS = [2.5, 0.2, 8.0, 1.0, 20.0, 5.0]


def search(trials: int = 4, seeds: int = 2, first: bool = True) -> Edition:
    points = ({"encoding.gamma": 2.5},) if first else ()
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plan = Search(space=space, first=points, trials=trials, stop=Halving())
    return Study(name="reach", question="?", base=BASE, plan=plan, seeds=seeds).at()


START = FromTrial(values={"data.task": "absolute"}).plain()
ARMS = {
    "none": {"encoding.kind": "none"},
    "near": {"encoding.gamma": 1.0},
    "child": {"init": START},
    "twin": {"optimizer.lr": 0.01, "init": {**START, "values": {"data.task": "absolute", "optimizer.lr": 0.001}}},
    "grandchild": {"init": FromTrial(values={"data.task": "direction4", "init": START}).plain()},
    "pupil": {"model.pool": "distilled", "init": START, "teacher": {"kind": "from_trial", "values": {}}},
}
"""`child`, `twin` and the parent of `grandchild` begin from one run; `pupil` has two parents."""


def arms(some: dict | None = None, seeds: int = 2) -> Edition:
    plan = Ablation(arms=some or ARMS, baseline=next(iter(some or ARMS)))
    return Study(name="arms", question="?", base=BASE, plan=plan, seeds=seeds).at()


class Situation:
    """A history under construction."""

    def __init__(self, edition: Edition) -> None:
        self.edition = edition
        self.history = History(edition, lambda recipe: "code")
        self.add(Counts(seeds=edition.study.seeds, trials=getattr(edition.study.plan, "trials", None)))

    def add(self, *facts) -> None:
        for fact in facts:
            self.history.add(fact)

    def plan(self, gamma: float, role: str = "trial", number: int | None = None) -> Trial:
        trials = self.history.of(role)
        values = {"encoding.gamma": gamma}
        number = len(trials) if number is None else number
        self.add(Planned(role=role, number=number, name=str(gamma), values=values))
        return self.history.of(role)[-1]

    def end(self, run: Run, value: float = 0.9, outcome: str = "completed", epoch: int = 4) -> None:
        known = {"run": run.key, "code": "code"}
        self.add(Measured(**known, epoch=epoch, values={"val/accuracy": value}))
        self.add(Ended(**known, outcome=outcome, epoch=epoch))

    def stop(self, run: Run, epoch: int = 2) -> None:
        known = {"run": run.key, "code": "code"}
        self.add(Measured(**known, epoch=epoch, values={"val/accuracy": 0.5}))
        self.add(StoppedAt(**known, epoch=epoch, cutoff=0.7))

    def fail(self, run: Run, times: int = 1) -> None:
        for _ in range(times):
            self.add(FailedWith(run=run.key, code="code", reason="out of memory"))

    def next(self, *in_flight: Run):
        return next_action(self.history, {run.key for run in in_flight})


def test_a_search_proposes_then_trains_then_proposes() -> None:
    now = Situation(search())
    assert now.next() == Propose(0)
    trial = now.plan(2.5)
    first, second = trial.runs(2)
    assert now.next() == Assign(first, trial)
    assert now.next(first) == Propose(1), "another point while the first seed is in flight"
    now.end(first)
    assert now.next() == Assign(second, trial), "a survivor gets its other seeds"
    now.end(second)
    assert now.next() == Propose(1)


def test_a_stopped_or_diverged_first_seed_spares_the_others() -> None:
    now = Situation(search())
    now.stop(now.plan(2.5).runs(2)[0])
    assert now.next() == Propose(1)
    now.end(now.plan(0.2).runs(2)[0], outcome="diverged")
    assert now.next() == Propose(2)


def test_a_failed_run_is_tried_again_once() -> None:
    now = Situation(search(trials=1))
    trial = now.plan(2.5)
    first = trial.runs(1)[0]
    now.fail(first)
    assert now.next() == Assign(first, trial)
    now.fail(first)
    assert now.next() == Done(), "left to the next command"
    now.add(Counts(seeds=2, trials=1))
    assert now.next() == Assign(first, trial)


def finished(trials: int = 4) -> Situation:
    now = Situation(search(trials=trials))
    for gamma in POINTS[:trials]:
        for seed, run in enumerate(now.plan(gamma).runs(2)):
            now.end(run, value=1 / (1 + abs(gamma - 8)) + 0.01 * seed)
    return now


def test_the_best_are_confirmed_best_first_and_without_doubles() -> None:
    now = finished()
    assert now.next() == Confirm((2, 0, 3)), "8.0 and 2.5 stand nearest to 8"
    for number in (0, 2, 3):
        now.plan(POINTS[number], "confirmation", number)
    now.add(Confirms(numbers=(2, 0, 3)))
    runs = [trial.runs(2) for trial in now.history.of("confirmation")]
    assert now.next() == Assign(runs[0][0], now.history.of("confirmation")[0])
    now.end(runs[0][0])
    assert now.next() == Assign(runs[1][0], now.history.of("confirmation")[1]), "seeds outermost"
    for run in [*runs[0][1:], *runs[1], *runs[2]]:
        now.end(run)
    assert now.next() == Done()


def test_no_choice_before_the_last_trial_has_ended() -> None:
    now = finished()
    late = now.plan(5.0)
    now.add(Counts(seeds=2, trials=5))
    assert now.next(late.runs(1)[0]) == Wait()


def test_an_extension_that_changes_the_choice_confirms_the_new_ones() -> None:
    now = finished()
    for number in (0, 2, 3):
        for run in now.plan(POINTS[number], "confirmation", number).runs(2):
            now.end(run)
    now.add(Confirms(numbers=(2, 0, 3)), Counts(seeds=2, trials=5))
    assert now.next() == Propose(4)
    for run in now.plan(5.0).runs(2):
        now.end(run, value=2.0)
    assert now.next() == Confirm((4, 2, 0))
    fresh = now.plan(5.0, "confirmation", 4)
    now.add(Confirms(numbers=(4, 2, 0)))
    assert now.next() == Assign(fresh.runs(1)[0], fresh)


def test_the_papers_point_is_confirmed_even_where_it_was_stopped() -> None:
    now = Situation(search(trials=2))
    now.stop(now.plan(2.5).runs(1)[0])
    for run in now.plan(5.0).runs(2):
        now.end(run)
    assert now.next() == Confirm((1, 0))


def test_a_search_in_which_all_diverged_ends() -> None:
    now = Situation(search(trials=2, first=False))
    for gamma in (30.0, 35.0):
        now.end(now.plan(gamma).runs(1)[0], outcome="diverged")
    assert now.next() == Done()


def planned(some: dict | None = None) -> Situation:
    now = Situation(arms(some))
    assert now.next() == PlanArms(tuple(some or ARMS))
    for arm in now.edition.arms():
        now.add(Planned(role="trial", number=arm.number, name=arm.name, values=arm.values))
    return now


def test_an_ablation_runs_seeds_outermost() -> None:
    now = planned({"none": {"encoding.kind": "none"}, "near": {"encoding.gamma": 1.0}})
    one, two = now.history.of("trial")
    order = [one.runs(2)[0], two.runs(2)[0], one.runs(2)[1], two.runs(2)[1]]
    assert next_action(now.history, {run.key for run in order[:2]}) == Assign(order[2], one)
    for run in order:
        assert now.next().run == run
        now.end(run)
    assert now.next() == Done()
    now.add(Counts(seeds=3))
    assert now.next() == Assign(one.runs(3)[2], one)


def test_a_parent_is_listed_then_trained_then_its_children() -> None:
    now = planned({"alone": {}, "child": {"init": START}})
    alone, child = (trial.runs(1)[0] for trial in now.history.of("trial"))
    now.end(alone)
    (parent,) = child.needs()
    assert now.next() == RegisterParent(parent, "init")
    now.add(Planned(role="parent", number=1, name="p", values={"key": parent.key}))
    row = now.history.of("parent")[0]
    assert now.next() == Assign(parent, row)
    assert now.next(parent).run == now.history.of("trial")[0].runs(2)[1], "the next seed meanwhile"
    now.end(parent)
    assert now.next() == Assign(child, now.history.of("trial")[1])


def test_a_diverged_parent_is_inherited_a_failed_one_blocks() -> None:
    now = planned({"alone": {}, "child": {"init": START}})
    for run in now.history.of("trial")[0].runs(2):
        now.end(run)
    child = now.history.of("trial")[1].runs(2)
    now.add(Planned(role="parent", number=1, name="p", values={"key": child[0].needs()[0].key}))
    now.end(child[0].needs()[0], outcome="diverged")
    assert now.next() == MarkDiverged(child[0])
    now.end(child[0], outcome="diverged", epoch=0)
    now.fail(child[1].needs()[0], times=2)
    assert now.next() == Done()
    assert now.history.answer(now.history.of("trial")[1]).status == "incomplete"


def test_all_parents_come_first_and_any_that_diverged_is_inherited() -> None:
    undistilled = {**START, "values": {**START["values"], "model.pool": "token", "teacher": {"kind": "none"}}}
    now = planned({"pupil": {**ARMS["pupil"], "init": undistilled}})
    pupil = now.history.of("trial")[0].runs(1)[0]
    start, teacher = pupil.needs()
    for number, (use, parent) in enumerate(pupil.parents.items(), start=1):
        assert now.next() == RegisterParent(parent, use)
        now.add(Planned(role="parent", number=number, name=use, values={"key": parent.key}))
    rows = now.history.of("parent")
    assert now.next() == Assign(start, rows[0])
    assert now.next(start) == Assign(teacher, rows[1]), "both may train at once"
    now.end(start)
    assert now.next(teacher).run.seed == 1, "the next seed's parents meanwhile"
    now.end(teacher, outcome="diverged")
    assert now.next() == MarkDiverged(pupil)


class World(Situation):
    """Plays a driver and its workers; what a run comes to is decided by its key alone, so also when tried again."""

    def __init__(self, edition: Edition, seed: int, max_concurrent: int) -> None:
        super().__init__(edition)
        self.chance, self.max_concurrent = random.Random(seed), max_concurrent
        self.in_flight: dict[str, Run] = {}
        self.given: list[Run] = []
        self.fates: dict[str, str] = {}

    def fate(self, run: Run) -> str:
        weights = {"completed": 7, "diverged": 1, "broken": 1, "flaky": 1}
        drawn = random.Random(f"{run.key} {self.edition.id}").choices([*weights], [*weights.values()])[0]
        return self.fates.setdefault(run.key, drawn)

    def step(self) -> bool:
        """One decision or one end; False where nothing is left."""
        if len(self.in_flight) < self.max_concurrent:
            action = next_action(self.history, set(self.in_flight))
            if isinstance(action, Done):
                assert not self.in_flight
                return False
            if not isinstance(action, Wait):
                self.act(action)
                return True
            assert self.in_flight, "waits for nothing"
        self.land(self.in_flight.pop(self.chance.choice(sorted(self.in_flight))))
        return True

    def act(self, action) -> None:
        match action:
            case PlanArms():
                for arm in self.edition.arms():
                    self.add(Planned(role="trial", number=arm.number, name=arm.name, values=arm.values))
            case Propose(number=number):
                self.plan(round(self.chance.uniform(0.2, 20), 3))
                assert number == len(self.history.of("trial")) - 1
            case Confirm(numbers=numbers):
                known = {trial.number for trial in self.history.of("confirmation")}
                for number in sorted(set(numbers) - known):
                    self.plan(self.history.of("trial")[number].values["encoding.gamma"], "confirmation", number)
                self.add(Confirms(numbers=numbers))
            case RegisterParent(parent=parent):
                number = len(self.history.of("parent")) + 1
                self.add(Planned(role="parent", number=number, name="p", values={"key": parent.key}))
            case MarkDiverged(run=run):
                assert "diverged" in {self.history.state(parent).status for parent in run.needs()}
                self.end(run, outcome="diverged", epoch=0)
            case Assign(run=run, trial=trial):
                self.give(run, trial)

    def give(self, run: Run, trial: Trial) -> None:
        assert run.key not in self.in_flight
        assert not self.history.state(run).answered
        assert all(self.history.state(parent).status == "completed" for parent in run.needs())
        tries = sum(one.key == run.key for one in self.given)
        assert tries < 2
        assert tries == 0 or self.fate(run) in ("broken", "flaky")
        self.given.append(run)
        self.in_flight[run.key] = run
        self.add(Started(run=run.key, code="code", attempt=tries + 1, seed=run.seed, label=trial.label))

    def land(self, run: Run) -> None:
        fate, value = self.fate(run), random.Random(run.key).random()
        tries = sum(one.key == run.key for one in self.given)
        if fate == "broken" or (fate == "flaky" and tries == 1):
            self.fail(run)
        elif isinstance(self.edition.study.plan, Search) and run.seed == 0 and value < 0.4:
            self.stop(run)
        else:
            self.end(run, value, "diverged" if fate == "diverged" else "completed")


def balanced(world: World) -> bool:
    """No arm without a parent is more than one seed ahead of another in what was given, whatever happened to it."""
    ready = [trial for trial in world.history.of("trial") if not trial.recipe.parents]
    keys = {run.key for run in world.given}
    counts = [sum(run.key in keys for run in world.history.runs(trial).values()) for trial in ready]
    return not counts or max(counts) - min(counts) <= 1


@given(
    st.sampled_from(["search", "arms"]), st.integers(0, 10**6), st.integers(1, 4), st.integers(1, 3), st.integers(1, 6)
)
@settings(max_examples=60, deadline=None)
def test_every_study_ends_with_nothing_twice(
    kind: str, seed: int, max_concurrent: int, seeds: int, trials: int
) -> None:
    edition = arms(seeds=seeds) if kind == "arms" else search(trials=trials, seeds=seeds)
    world = World(Edition(budget="base", study=edition.study, mark=f"~{seed}"), seed, max_concurrent)
    steps = 0
    while world.step():
        steps += 1
        assert steps < 2000
        if kind == "arms":
            assert balanced(world)
    for trial in world.history.of("trial"):
        assert world.history.answer(trial).status != "open"
    keys = [run.key for run in world.given if world.fate(run) in ("completed", "diverged")]
    assert len(keys) == len(set(keys)), "shared parents are trained once"


@pytest.mark.parametrize("trials", [3])
def test_a_world_without_trouble_completes(trials: int) -> None:
    world = World(arms(), 0, 2)
    world.fate = lambda run: "completed"
    while world.step():
        pass
    assert {world.history.answer(trial).status for trial in world.history.of("trial")} == {"completed"}
    assert len({run.key for run in world.given}) == len(world.given) == 2 * (6 + 4)
