"""What facts add up to: the status of runs, the answers of trials, which code counts."""

import pytest

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study
from service.storage.facts import Counts, Ended, FailedWith, Measured, Planned, Started, StoppedAt
from service.storage.history import History
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe, Run
from trainables.recipe.revisions import code_of

BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 5})
NEW, OLD = code_of(BASE).digest, "0000bbbb3333"
PLAN = Search(space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}), trials=4, stop=Halving())
POINT = Planned(role="trial", number=0, name="x", values={"encoding.gamma": 3.0})


def study(**changes) -> Edition:
    return Study(**{"name": "reach", "question": "?", "base": BASE, "plan": PLAN, "seeds": 3} | changes).at()


def by_today(edition: Edition, *facts) -> History:
    return History(edition, facts)


def started(run: Run, attempt: int = 1) -> Started:
    return Started(run=run.key, code=NEW, attempt=attempt, seed=run.seed, label="0", time=10.0 * attempt)


def measured(run: Run, epoch: int, value: float, code: str = NEW) -> Measured:
    return Measured(run=run.key, code=code, epoch=epoch, values={"val/accuracy": value}, time=11.0)


def ended(run: Run, outcome: str = "completed", epoch: int = 5, code: str = NEW) -> Ended:
    return Ended(run=run.key, code=code, outcome=outcome, epoch=epoch)


def done(run: Run, value: float) -> list:
    return [measured(run, 5, value), ended(run)]


def failed(run: Run, counts: bool = True) -> FailedWith:
    return FailedWith(run=run.key, code=NEW, reason="out of memory", counts=counts)


def stopped(run: Run, epoch: int = 2) -> StoppedAt:
    return StoppedAt(run=run.key, code=NEW, epoch=epoch, cutoff=0.8)


RUNS = [*by_today(study(), POINT).trials[0].runs(3)]
A, B, C = RUNS


@pytest.mark.parametrize(
    ("facts", "status", "epoch", "was_run"),
    [
        ([], "missing", 0, False),
        ([started(A)], "running", 0, True),
        ([started(A), measured(A, 1, 0.5), measured(A, 2, 0.6)], "running", 2, True),
        ([started(A), measured(A, 2, 0.6), stopped(A)], "stopped", 2, True),
        ([stopped(A, 0)], "stopped", 0, False),
        ([started(A), measured(A, 1, 0.6), failed(A)], "failed", 1, True),
        ([started(A), failed(A), started(A, 2)], "running", 0, True),
        ([started(A), *done(A, 0.9)], "completed", 5, True),
        ([started(A), ended(A, "diverged", 2)], "diverged", 0, True),
        ([measured(A, 5, 0.9, OLD), ended(A, code=OLD)], "missing", 0, False),
    ],
)
def test_the_status_of_a_run(facts, status, epoch, was_run) -> None:
    found = by_today(study(), POINT, *facts)
    state = found.state(A)
    assert (state.status, state.epoch, state.was_run) == (status, epoch, was_run)
    assert state.answered == (status in ("completed", "diverged", "stopped"))
    assert state.left_out == (status == "stopped" and epoch == 0)
    assert found.state(B).status == "missing"
    assert (found.code(A), found.stale) == (NEW, sum(isinstance(fact, Ended) and fact.code == OLD for fact in facts))


def test_the_first_fact_of_an_epoch_counts() -> None:
    state = by_today(study(), POINT, measured(A, 1, 0.5), measured(A, 1, 0.9), measured(A, 2, 0.6)).state(A)
    assert [epoch.values["val/accuracy"] for epoch in state.curve.values()] == [0.5, 0.6]
    assert state.value("val/accuracy") == 0.6


def test_attempts_and_failures() -> None:
    found = by_today(study(), POINT, started(A), failed(A, counts=False), started(A, 2), failed(A))
    state = found.state(A)
    assert (state.attempts, state.failures, state.begun, state.reason) == (2, 1, 20.0, "out of memory")
    assert not found.given_up(A)
    found.add(failed(A))
    assert found.given_up(A)
    found.add(Counts(seeds=3, trials=4))
    assert not found.given_up(A), "the next command tries again"


@pytest.mark.parametrize(
    ("facts", "status", "values"),
    [
        ([], "open", {}),
        ([measured(A, 2, 0.6), stopped(A)], "stopped", {0: 0.6}),
        ([ended(A, "diverged")], "diverged", {0: 0.5}),
        (done(A, 0.9), "open", {0: 0.9}),
        ([failed(A), failed(A)], "incomplete", {}),
        ([*done(A, 0.9), failed(B), failed(B)], "open", {0: 0.9}),
        ([*done(A, 0.9), failed(B), failed(B), *done(C, 0.7)], "incomplete", {0: 0.9, 2: 0.7}),
        ([*done(A, 0.9), *done(B, 0.8), ended(C, "diverged")], "completed", {0: 0.9, 1: 0.8, 2: 0.5}),
    ],
)
def test_the_answer_of_a_searchs_trial_is_that_of_its_seeds_a_diverged_one_at_chance(facts, status, values) -> None:
    found = by_today(study(), POINT, *facts)
    (trial,) = found.trials
    answer = found.answer(trial)
    assert (answer.status, answer.values, answer.asked) == (status, values, 3)
    assert answer.mean == (pytest.approx(sum(values.values()) / len(values)) if values else None)
    assert found.highest() == ([trial] if status == "completed" else [])


def test_an_ablations_arm_goes_on_after_a_diverged_first_seed_at_the_chance_of_its_own_task() -> None:
    edition = study(base=BASE.put({"data.task": "direction4"}), plan=Ablation(arms={"a": {}}, baseline="a"))
    found = by_today(edition, Planned(role="trial", number=0, name="a", values={}))
    (trial,) = found.trials
    for run in found.runs(trial).values():
        assert found.answer(trial).status == "open"
        found.add(ended(run, "diverged"))
    assert (found.answer(trial).status, found.answer(trial).mean) == ("completed", 0.25)


def test_the_best_come_first_and_earlier_numbers_win_ties() -> None:
    found = by_today(study(seeds=1))
    for number, (gamma, value) in enumerate([(1.0, 0.7), (2.0, 0.9), (3.0, 0.9), (4.0, 0.8)]):
        found.add(Planned(role="trial", number=number, name="x", values={"encoding.gamma": gamma}))
        for fact in done(found.runs(found.trials[-1])[0], value):
            found.add(fact)
    assert [trial.number for trial in found.highest(3)] == [1, 2, 3]


def test_counts_grow_and_never_shrink_and_unsettle_a_trial() -> None:
    found = by_today(study(), POINT, *map(ended, RUNS))
    (trial,) = found.trials
    assert found.unsettled("trial") == []
    found.add(Counts(seeds=5, trials=9))
    assert found.unsettled("trial") == [trial]
    found.raise_counts(study(seeds=2))
    assert (found.seeds, found.trial_count, len(found.runs(trial))) == (5, 9, 5)
    found.raise_counts(study(seeds=7))
    assert found.seeds == 7


def test_what_is_asked_of_a_trial_spares_the_seeds_of_a_stopped_one() -> None:
    found = by_today(study(), POINT)
    (trial,) = found.trials
    assert found.asked(trial) == RUNS
    for fact in (started(A), measured(A, 2, 0.6), stopped(A), POINT.model_copy(update={"role": "confirmation"})):
        found.add(fact)
    assert found.asked(trial) == [A]
    assert found.asked(found.of("confirmation")[0]) == [], "not chosen"


def test_a_parents_runs_are_those_that_its_children_need() -> None:
    start = FromTrial(values={"data.task": "absolute"}).plain()
    edition = study(plan=Ablation(arms={"a": {}, "b": {"init": start}}, baseline="a"), keep=())
    found = by_today(edition)
    for number, (name, values) in enumerate(edition.study.plan.arms.items()):
        found.add(Planned(role="trial", number=number, name=name, values=values))
    children = list(found.runs(found.trials[1]).values())
    found.add(Planned(role="parent", number=1, name="p", values={"key": children[0].needs()[0].key}))
    assert found.runs(found.of("parent")[0]) == {run.seed: run.needs()[0] for run in children}
    assert found.keeps(children[0].needs()[0])
    assert not found.keeps(children[0])
