"""Histories under construction, of a search or of an ablation with parents; and the plan of a study in a home."""

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study, Trial, Tuning
from service.planning.estimate import WorkEstimate, estimate_work
from service.planning.placement import Placement
from service.planning.schedule import next_action
from service.storage.facts import Counts, Ended, FailedWith, Measured, Planned, StoppedAt
from service.storage.history import History
from service.storage.home import Home
from service.storage.outcomes import Outcomes
from trainables.encodings import Fourier
from trainables.recipe import FromTrial, Recipe, Run

BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 4})


def search(trials: int = 4, seeds: int = 2, first: bool = True, rival: bool = False) -> Edition:
    points = ({"encoding.gamma": 2.5},) if first else ()
    space = Space({"encoding.gamma": Real(low=0.1, high=40, log=True)})
    plan = Search(space=space, first=points, trials=trials, stop=Halving(), rival=rival)
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


def arms(some: dict | None = None, seeds: int = 2, tune: Tuning | None = None, race: bool = False) -> Edition:
    plan = Ablation(arms=some or ARMS, baseline=next(iter(some or ARMS)), tune=tune, race=race)
    return Study(name="arms", question="?", base=BASE, plan=plan, seeds=seeds).at()


class Situation:
    """A history under construction."""

    def __init__(self, edition: Edition) -> None:
        self.edition = edition
        self.history, self.facts = History(edition), []
        self.add(Counts(seeds=edition.study.seeds, trials=edition.study.plan.trials or None))

    def add(self, *facts) -> None:
        for fact in facts:
            self.facts.append(fact)
            self.history.add(fact)

    def plan(self, gamma: float, role: str = "trial", number: int | None = None) -> Trial:
        trials = self.history.of(role)
        values = {"encoding.gamma": gamma}
        number = len(trials) if number is None else number
        self.add(Planned(role=role, number=number, name=str(gamma), values=values))
        return self.history.of(role)[-1]

    def end(self, run: Run, value: float = 0.9, outcome: str = "completed", epoch: int = 4) -> None:
        known = {"run": run.key, "code": self.history.code(run)}
        self.add(Measured(**known, epoch=epoch, values={"val/accuracy": value}))
        self.add(Ended(**known, outcome=outcome, epoch=epoch))

    def stop(self, run: Run, epoch: int = 2) -> None:
        known = {"run": run.key, "code": self.history.code(run)}
        self.add(Measured(**known, epoch=epoch, values={"val/accuracy": 0.5}))
        self.add(StoppedAt(**known, epoch=epoch, cutoff=0.7))

    def fail(self, run: Run, times: int = 1) -> None:
        for _ in range(times):
            self.add(FailedWith(run=run.key, code=self.history.code(run), reason="out of memory"))

    def next(self, *in_flight: Run):
        return next_action(self.history, {run.key for run in in_flight})


def planned(home: Home, edition: Edition, max_concurrent: int = 2, device: str = "cpu") -> WorkEstimate:
    history = History.open(home, edition)
    history.raise_counts(edition)
    placement = Placement(max_concurrent=max_concurrent, device=device)
    return estimate_work(history, Outcomes(home), placement)
