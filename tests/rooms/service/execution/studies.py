"""A small search and a small ablation for the toy engine, and the facts of their journals."""

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study
from service.storage.home import Home
from service.storage.journal import read
from trainables.encodings import Fourier
from trainables.recipe import Recipe

HALVING = Halving()
BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 6})


def search(trials: int = 6, stop: Halving | None = HALVING, **changes) -> Edition:
    plan = Search(
        space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}),
        first=({"encoding.gamma": 2.5},),
        trials=trials,
        stop=stop,
    )
    return Study(**{"name": "reach", "question": "?", "base": BASE, "plan": plan, "seeds": 2} | changes).at()


def arms(values: dict | None = None, **changes) -> Edition:
    some = values or {
        "none": {"encoding.kind": "none"},
        "near": {"encoding.gamma": 1.0},
        "far": {"encoding.gamma": 8.0},
    }
    plan = Ablation(arms=some, baseline=next(iter(some)))
    return Study(**{"name": "arms", "question": "?", "base": BASE, "plan": plan, "seeds": 2} | changes).at()


def facts(home: Home, edition: Edition, kind=object) -> list:
    return [fact for fact in read(home.study(edition.id).journal)[0] if isinstance(fact, kind)]
