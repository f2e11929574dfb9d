"""A small search and a small ablation for the toy engine, the facts of their journals, and an engine that asks."""

import random

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Halving, Search, Study
from service.execution.signals import Control, ask_driver
from service.storage.home import Home
from service.storage.journal import read
from tests.rooms.toy import Toy
from trainables.encodings import Fourier
from trainables.recipe import Recipe

HALVING = Halving()
BASE = Recipe(encoding=Fourier(gamma=2.5)).put({"optimizer.epochs": 6})


def search(trials: int = 6, stop: Halving | None = HALVING, rival: bool = False, **changes) -> Edition:
    plan = Search(
        space=Space({"encoding.gamma": Real(low=0.1, high=40, log=True)}),
        first=({"encoding.gamma": 2.5},),
        trials=trials,
        stop=stop,
        rival=rival,
    )
    return Study(**{"name": "reach", "question": "?", "base": BASE, "plan": plan, "seeds": 2} | changes).at()


def arms(values: dict | None = None, **changes) -> Edition:
    values = values or {
        "none": {"encoding.kind": "none"},
        "near": {"encoding.gamma": 1.0},
        "far": {"encoding.gamma": 8.0},
    }
    plan = Ablation(arms=values, baseline=next(iter(values)))
    return Study(**{"name": "arms", "question": "?", "base": BASE, "plan": plan, "seeds": 2} | changes).at()


def facts(home: Home, edition: Edition, kind=object) -> list:
    return [fact for fact in read(home.study(edition.id).journal)[0] if isinstance(fact, kind)]


class Asked(Toy):
    """An engine that lets the driver read its requests after each epoch. `asks`: a request by the epoch it comes at."""

    def __init__(self, driver, asks: dict[int, Control], **more) -> None:
        super().__init__(driver, random.Random(0), **more)
        self.asks, self.epochs, self.most = asks, 0, 0

    def _advance(self, key: str) -> None:
        self.most = max(self.most, len(self.driver.in_flight.jobs))
        self.epochs += 1
        if self.epochs in self.asks:
            ask_driver(self.driver.folder, self.asks[self.epochs])
        super()._advance(key)
        self.driver.heed()
