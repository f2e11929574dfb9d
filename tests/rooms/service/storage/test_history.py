"""What facts add up to: the status of runs, the answers of trials, which code counts."""

import pytest

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study, Trial
from service.storage.facts import Counts, Ended, FailedWith, Measured, Planned, Started, StoppedAt
from service.storage.history import History
from service.storage.states import RunState, add_fact
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe, Run

BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 5})
NEW, OLD = "1111aaaa2222", "0000bbbb3333"
PLAN = Search(space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}), trials=4, stop=Halving())


def search(**changes) -> Edition:
    return Study(**{"name": "reach", "question": "?", "base": BASE, "plan": PLAN, "seeds": 3} | changes).at()


def started(run: Run, attempt: int = 1, code: str = NEW) -> Started:
    return Started(run=run.key, code=code, attempt=attempt, seed=run.seed, label="0", time=10.0 * attempt)


def measured(run: Run, epoch: int, value: float, code: str = NEW) -> Measured:
    return Measured(run=run.key, code=code, epoch=epoch, values={"val/accuracy": value}, time=11.0)


def ended(run: Run, outcome: str = "completed", epoch: int = 5, code: str = NEW, reused: bool = False) -> Ended:
    return Ended(run=run.key, code=code, outcome=outcome, epoch=epoch, reused=reused)


def failed(run: Run, counts: bool = True) -> FailedWith:
    return FailedWith(run=run.key, code=NEW, reason="out of memory", counts=counts)


def stopped(run: Run, epoch: int = 2) -> StoppedAt:
    return StoppedAt(run=run.key, code=NEW, epoch=epoch, cutoff=0.8)


def history(edition: Edition | None = None) -> tuple[History, Trial, list[Run]]:
    found = History(edition or search(), lambda recipe: NEW)
    found.add(Planned(role="trial", number=0, name="x", values={"encoding.gamma": 3.0}))
    trial = found.trials[0]
    return found, trial, list(found.runs(trial).values())


def test_the_status_of_a_run() -> None:
    for facts, status, epoch in [
        (lambda run: [], "missing", 0),
        (lambda run: [started(run)], "running", 0),
        (lambda run: [started(run), measured(run, 1, 0.5), measured(run, 2, 0.6)], "running", 2),
        (lambda run: [started(run), measured(run, 2, 0.6), stopped(run)], "stopped", 2),
        (lambda run: [started(run), measured(run, 1, 0.6), failed(run)], "failed", 1),
        (lambda run: [started(run), failed(run), started(run, 2)], "running", 0),
        (lambda run: [started(run), measured(run, 5, 0.9), ended(run)], "completed", 5),
        (lambda run: [measured(run, 5, 0.9), ended(run, reused=True)], "completed", 5),
        (lambda run: [started(run), ended(run, "diverged", 2)], "diverged", 0),
    ]:
        found, _, runs = history()
        for fact in facts(runs[0]):
            found.add(fact)
        state = found.state(runs[0])
        assert (state.status, state.epoch) == (status, epoch)
        assert state.answered == (status in ("completed", "diverged", "stopped"))
        assert found.state(runs[1]).status == "missing"


def test_the_first_fact_of_an_epoch_counts() -> None:
    found, _, runs = history()
    for fact in (measured(runs[0], 1, 0.5), measured(runs[0], 1, 0.9), measured(runs[0], 2, 0.6)):
        found.add(fact)
    assert [said.values["val/accuracy"] for said in found.state(runs[0]).curve.values()] == [0.5, 0.6]
    assert found.state(runs[0]).value("val/accuracy") == 0.6


def test_attempts_and_failures() -> None:
    found, _, runs = history()
    for fact in (started(runs[0]), failed(runs[0], counts=False), started(runs[0], 2), failed(runs[0])):
        found.add(fact)
    state = found.state(runs[0])
    assert (state.attempts, state.failures, state.begun, state.reason) == (2, 1, 20.0, "out of memory")
    assert not found.given_up(runs[0])
    found.add(failed(runs[0]))
    assert found.given_up(runs[0])
    found.add(Counts(seeds=3, trials=4))
    assert not found.given_up(runs[0]), "the next command tries again"


def test_a_trials_answer_is_the_mean_of_its_seeds_a_diverged_one_at_chance() -> None:
    found, trial, runs = history()
    for run, value in zip(runs, (0.9, 0.8, None), strict=True):
        found.add(ended(run, "completed" if value else "diverged") if value is None else measured(run, 5, value))
        if value is not None:
            found.add(ended(run))
    answer = found.answer(trial)
    assert (answer.status, answer.values, answer.asked) == ("completed", {0: 0.9, 1: 0.8, 2: 0.5}, 3)
    assert answer.mean == pytest.approx((0.9 + 0.8 + 0.5) / 3)


def test_chance_is_that_of_the_trials_own_task() -> None:
    study = search(base=BASE.put({"data.task": "direction4"}), plan=Ablation(arms={"a": {}}, baseline="a"))
    found = History(study, lambda recipe: NEW)
    found.add(Planned(role="trial", number=0, name="a", values={}))
    for run in found.runs(found.trials[0]).values():
        found.add(ended(run, "diverged"))
    assert found.answer(found.trials[0]).mean == 0.25


def test_the_answer_of_a_searchs_trial() -> None:
    for facts, status, values in [
        (lambda a, b, c: [], "open", {}),
        (lambda a, b, c: [measured(a, 2, 0.6), stopped(a)], "stopped", {0: 0.6}),
        (lambda a, b, c: [ended(a, "diverged")], "diverged", {0: 0.5}),
        (lambda a, b, c: [measured(a, 5, 0.9), ended(a)], "open", {0: 0.9}),
        (lambda a, b, c: [failed(a), failed(a)], "incomplete", {}),
        (lambda a, b, c: [measured(a, 5, 0.9), ended(a), failed(b), failed(b)], "open", {0: 0.9}),
        (
            lambda a, b, c: [measured(a, 5, 0.9), ended(a), failed(b), failed(b), measured(c, 5, 0.7), ended(c)],
            "incomplete",
            {0: 0.9, 2: 0.7},
        ),
    ]:
        found, trial, runs = history()
        for fact in facts(*runs):
            found.add(fact)
        answer = found.answer(trial)
        assert (answer.status, answer.values) == (status, values)
        assert found.highest() == []


def test_an_ablations_arm_goes_on_after_a_diverged_first_seed() -> None:
    study = search(plan=Ablation(arms={"a": {}, "b": {"encoding.gamma": 9.0}}, baseline="a"))
    found = History(study, lambda recipe: NEW)
    found.add(Planned(role="trial", number=0, name="a", values={}))
    first = next(iter(found.runs(found.trials[0]).values()))
    found.add(ended(first, "diverged"))
    assert found.answer(found.trials[0]).status == "open"


def test_only_the_code_that_counts_is_read() -> None:
    found, _, runs = history()
    for fact in (measured(runs[0], 5, 0.9, OLD), ended(runs[0], code=OLD)):
        found.add(fact)
    assert found.state(runs[0]).status == "missing"
    assert found.code(runs[0]) == NEW
    assert found.stale == 1


def test_the_best_come_first_and_earlier_numbers_win_ties() -> None:
    found = History(search(seeds=1), lambda recipe: NEW)
    for number, (gamma, value) in enumerate([(1.0, 0.7), (2.0, 0.9), (3.0, 0.9), (4.0, 0.8)]):
        found.add(Planned(role="trial", number=number, name="x", values={"encoding.gamma": gamma}))
        run = found.runs(found.trials[-1])[0]
        found.add(measured(run, 5, value))
        found.add(ended(run))
    assert [trial.number for trial in found.highest(3)] == [1, 2, 3]


def test_counts_grow_and_never_shrink() -> None:
    found, trial, _ = history()
    found.add(Counts(seeds=5, trials=9))
    found.raise_counts(search(seeds=2))
    assert (found.seeds, found.trial_count, len(found.runs(trial))) == (5, 9, 5)
    found.raise_counts(search(seeds=7))
    assert found.seeds == 7


def test_what_is_asked_of_a_trial_spares_the_seeds_of_a_stopped_one() -> None:
    found, trial, runs = history()
    assert found.asked(trial) == runs
    for fact in (started(runs[0]), measured(runs[0], 2, 0.6), stopped(runs[0])):
        found.add(fact)
    assert found.asked(trial) == runs[:1]
    found.add(Planned(role="confirmation", number=0, name="x", values={"encoding.gamma": 3.0}))
    assert found.asked(found.of("confirmation")[0]) == [], "not chosen"


def test_a_parents_runs_are_those_that_its_children_need() -> None:
    start = FromTrial(values={"data.task": "absolute"}).plain()
    study = search(plan=Ablation(arms={"a": {}, "b": {"init": start}}, baseline="a"), keep=())
    found = History(study, lambda recipe: NEW)
    for number, (name, values) in enumerate(study.study.plan.arms.items()):
        found.add(Planned(role="trial", number=number, name=name, values=values))
    children = list(found.runs(found.trials[1]).values())
    found.add(Planned(role="parent", number=1, name="p", values={"key": children[0].needs()[0].key}))
    assert found.runs(found.of("parent")[0]) == {run.seed: run.needs()[0] for run in children}
    assert found.keeps(children[0].needs()[0])
    assert not found.keeps(children[0])


def test_a_trial_is_settled_until_more_seeds_are_asked_for() -> None:
    found, trial, runs = history()
    assert found.unsettled("trial") == [trial]
    for run in runs:
        found.add(ended(run))
    assert found.unsettled("trial") == []
    found.raise_counts(search(seeds=5))
    assert found.unsettled("trial") == [trial]


def test_a_run_that_was_left_out_was_not_run() -> None:
    state = RunState()
    add_fact(state, StoppedAt(run=16 * "1", code=NEW, epoch=0, cutoff=0.8))
    assert state.answered
    assert state.left_out
    assert not state.was_run
    halved = RunState()
    add_fact(halved, Measured(run=16 * "1", code=NEW, epoch=2, values={"val/accuracy": 0.6}))
    add_fact(halved, StoppedAt(run=16 * "1", code=NEW, epoch=2, cutoff=0.8))
    assert halved.was_run
    assert not halved.left_out
