"""What comes next, as a law: every study ends, over random interleavings, failures and divergences."""

import random
from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from search_spaces.roles import COMPARED
from search_spaces.space import Real, Space
from search_spaces.study import Edition, Search, Trial, Tuning
from service.planning.schedule import (
    Assign,
    Choose,
    Decisions,
    Done,
    LeaveOut,
    MarkDiverged,
    Propose,
    Tune,
    Wait,
    next_action,
)
from service.storage.facts import Counts, Ended, Fact, FailedWith, Planned, Started
from service.storage.history import History
from tests.rooms.service.planning.situations import ARMS, Situation, arms, search
from trainables.recipe import Run


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
            case Assign(run=run, trial=trial):
                self.give(run, trial)
            case MarkDiverged(run=run):
                assert "diverged" in {self.history.state(parent).status for parent in run.needs()}
                self.end(run, outcome="diverged", epoch=0)
            case Propose(number=number, role=role):
                self.plan(round(self.chance.uniform(0.2, 20), 3), role)
                assert number == len(self.history.of(role)) - 1
                assert role == "trial" or len(self.history.of("trial")) == self.history.trial_count
            case Tune(arm=arm, number=number):
                point = {"optimizer.lr": self.chance.uniform(1e-4, 1e-2)}
                self.add(Planned(role="tuning", number=number, name="", values=point, tunes=arm))
                counts = [len(self.history.tuning.trials(name)) for name in self.edition.study.plan.arms]
                assert max(counts) - min(counts) <= 1
                assert not self.history.of("trial")
            case _:
                assert not isinstance(action, Choose) or action.arm not in self.history.tuning.chosen, "chosen once"
                assert not isinstance(action, LeaveOut) or not self.history.state(action.run).was_run
                self.add(*Decisions(self.history).facts(action))

    def give(self, run: Run, trial: Trial) -> None:
        assert run.key not in self.in_flight
        assert not self.history.state(run).answered
        assert all(self.history.state(parent).status == "completed" for parent in run.needs())
        tries = sum(one.key == run.key for one in self.given)
        assert tries < 2
        assert tries == 0 or self.fate(run) in ("broken", "flaky")
        self.given.append(run)
        self.in_flight[run.key] = run
        self.add(Started(run=run.key, code=self.history.code(run), attempt=tries + 1, seed=run.seed, label=trial.label))

    def land(self, run: Run) -> None:
        fate, value = self.fate(run), random.Random(run.key).random()
        if getattr(self.edition.study.plan, "race", False):  # arms that differ by more than their seeds
            value = 0.9 * random.Random(run.recipe.model_dump_json()).random() + 0.1 * value
        tries = sum(one.key == run.key for one in self.given)
        if fate == "broken" or (fate == "flaky" and tries == 1):
            self.fail(run)
        elif isinstance(self.edition.study.plan, Search) and run.seed in (0, 2000) and value < 0.4:
            self.stop(run)
        else:
            self.end(run, value, "diverged" if fate == "diverged" else "completed")


class Remembering(World):
    """Compares what its history remembers with a history of the same facts that was never asked, after each fact."""

    def add(self, *facts: Fact) -> None:
        for fact in facts:
            super().add(fact)
            assert seen(self.history) == seen(History(self.edition, self.facts))

    def step(self) -> bool:
        """Now and then answers are lost, counts rise, and an answer of other code comes."""
        answered = [run for run in self.given if self.history.state(run).answered]
        match self.chance.randrange(12):
            case 0 if answered:
                lost = self.chance.choice(answered)
                self.add(FailedWith(run=lost.key, code=self.history.code(lost), reason="lost", counts=False))
            case 1 if self.history.seeds < 3:
                self.add(Counts(seeds=self.history.seeds + 1, trials=self.history.trials_asked or None))
            case 3 if 0 < self.history.trials_asked < 5:
                self.add(Counts(seeds=self.history.seeds, trials=self.history.trials_asked + 1))
            case 4 if [run for run in answered if run.key not in self.in_flight]:  # its weights were lost
                run = self.chance.choice([run for run in answered if run.key not in self.in_flight])
                self.give(run, next(one for one in self.history.trials if run in self.history.runs(one).values()))
            case 2 if answered:
                run = self.chance.choice(answered)
                self.add(Ended(run=run.key, code="01de501de501", outcome="completed", epoch=4))
        return super().step()

    def give(self, run: Run, trial: Trial) -> None:
        """Also a run whose answer was lost."""
        self.given.append(run)
        self.in_flight[run.key] = run
        self.add(Started(run=run.key, code=self.history.code(run), attempt=1, seed=run.seed, label=trial.label))


def seen(history: History) -> tuple:
    """All that a history remembers of its trials."""
    answers = [(trial.label, history.answer(trial)) for trial in history.trials]
    waiting = {role: [trial.label for trial in history.unsettled(role)] for role in COMPARED}
    return answers, waiting, [history.code(run) for trial in history.trials for run in history.runs(trial).values()]


@given(st.sampled_from(["search", "rival", "arms", "race", "tuned"]), st.integers(0, 10**6))
@settings(max_examples=10)
def test_what_a_history_remembers_is_what_its_facts_say(kind: str, seed: int) -> None:
    """After every fact, also where an answer is lost, or counts rise."""
    edition = edition_of(kind, 1, 0 if kind == "arms" else 2)
    world = Remembering(Edition(budget="base", study=edition.study, mark=f"~{seed}"), seed, 2)
    for _ in range(80):
        if not world.step():
            break
    assert len(world.facts) > 10


def balanced(world: World) -> bool:
    """No arm without a parent is more than one seed ahead of another in what was given, whatever happened to it."""
    ready = [trial for trial in world.history.of("trial") if not trial.recipe.parents]
    keys = {run.key for run in world.given}
    counts = [sum(run.key in keys for run in world.history.runs(trial).values()) for trial in ready]
    return not counts or max(counts) - min(counts) <= 1


@cache
def edition_of(kind: str, seeds: int, trials: int) -> Edition:
    if kind in ("search", "rival"):
        return search(trials=trials, seeds=seeds, rival=kind == "rival")
    if kind in ("arms", "race"):
        return arms(seeds=seeds + 3 * (kind == "race"), race=kind == "race")
    return arms(seeds=seeds, tune=Tuning(Space({"optimizer.lr": Real(1e-4, 1e-2)}), trials, seeds=1 + trials % 2))


@given(
    st.sampled_from(["search", "rival", "arms", "race", "tuned"]),
    st.integers(0, 10**6),
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 6),
)
@settings(max_examples=36)
def test_every_study_ends_with_nothing_twice(
    kind: str, seed: int, max_concurrent: int, seeds: int, trials: int
) -> None:
    edition = edition_of(kind, seeds, 0 if kind == "arms" else trials)
    tune = edition.study.plan.tune if kind == "tuned" else None
    world = World(Edition(budget="base", study=edition.study, mark=f"~{seed}"), seed, max_concurrent)
    steps = 0
    while world.step():
        steps += 1
        assert steps < 2000
        if kind == "arms":
            assert balanced(world)
    for trial in [*world.history.of("trial"), *world.history.of("rival"), *world.history.of("tuning")]:
        assert world.history.answer(trial).status != "open"
    if tune is not None:
        assert len(world.history.of("tuning")) == trials * len(ARMS)
        assert {trial.name for trial in world.history.of("trial")} == set(world.history.tuning.chosen)
    if kind == "race":
        left = {trial.label: sum(world.history.state(run).left_out for run in trial.runs(seeds + 3))
                for trial in world.history.of("trial")}  # fmt: skip
        assert max(left.values()) <= 1, "an arm is left out once"
        assert min(left.values()) == 0, "one stays"
    assert len(world.history.of("rival")) == (trials if kind == "rival" else 0)
    keys = [run.key for run in world.given if world.fate(run) in ("completed", "diverged")]
    assert len(keys) == len(set(keys)), "shared parents are trained once"
