"""Measures side by side what a step of training and a prediction take with each of several recipes.

A program of its own (`python -m trainables.launch.costs`), which reads what to measure from its standard input: so
each has a process as a run has, and several of them load the machine as the runs of a study will.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch

from trainables.data.splits_torch import Reading
from trainables.recipe import Recipe, Run
from trainables.recipe.evaluation import eval_batch
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training
from trainables.training.parameters import train_mode
from trainables.training.runtime import runtime

TURN_S = 0.15
"""Seconds of training in each turn of a recipe; predictions take about as long."""


class Measured:
    """One recipe: its training, and the seconds an image in each turn so far."""

    def __init__(self, recipe: Recipe, device: str, data: Path | None, like: Measured | None) -> None:
        self.training = Training(Run(recipe=recipe, seed=0), device, {}, SINGLE, Reading(data))
        if like is not None and like.training.run.recipe.data == recipe.data:
            self.training.splits = like.training.splits
        self.batches = (batch for epoch in count(1) for batch in self.training._batches(epoch, 0))
        split = self.training.splits.validation
        numbers = torch.arange(min(len(split), eval_batch(recipe), 256))
        ((pixels, _),) = split.batches([numbers.to(self.training.device)], self.training.dtype)
        self.pixels = pixels
        self.train_s: list[float] = []
        self.predict_s: list[float] = []

    def turn(self, seconds: float) -> None:
        """Trains, then predicts, each for about so long."""
        train_mode(self.training.module)
        step = count()
        self.train_s.append(self._timed(lambda: self._step(next(step)), seconds))
        self.training.model.eval()
        with torch.inference_mode():
            self.predict_s.append(self._timed(self._predict, seconds))

    def _step(self, step: int) -> int:
        numbers, images, targets = next(self.batches)
        self.training._step(numbers, images, targets, step)
        return len(numbers)

    def _predict(self) -> int:
        with self.training.autocast:
            self.training.model(self.training.normalize(self.pixels))
        return len(self.pixels)

    def _timed(self, act: Callable[[], int], seconds: float) -> float:
        """Returns the seconds an image: of the processor, where one thread computes, so that others do not count."""
        alone = self.training.device.type == "cpu" and torch.get_num_threads() == 1
        clock = time.process_time if alone else time.perf_counter
        self._wait()
        begun, images, until = clock(), 0, time.perf_counter() + seconds
        while time.perf_counter() < until:
            images += act()
            self._wait()
        return (clock() - begun) / images

    def _wait(self) -> None:
        if self.training.device.type == "cuda":
            torch.cuda.synchronize(self.training.device)


def measure(recipes: dict[str, Recipe], device: str, threads: int, data: Path | None, turns: int) -> dict[str, Any]:
    """Returns the seconds an image in each turn, of training and of prediction, by name; a first turn does not count.

    Recipes take their turns one after another, so that what else the machine does falls on all alike.
    """
    precision = next(iter(recipes.values())).optimizer.precision
    with runtime(threads, precision):
        measured: dict[str, Measured] = {}
        for name, recipe in recipes.items():
            measured[name] = Measured(recipe, device, data, next(iter(measured.values()), None))
        for turn in range(turns + 1):
            for each in measured.values():
                each.turn(TURN_S if turn else TURN_S / 3)
    return {name: {"train_s": each.train_s[1:], "predict_s": each.predict_s[1:]} for name, each in measured.items()}


if __name__ == "__main__":
    order = json.load(sys.stdin)
    recipes = {name: Recipe.read(plain) for name, plain in order["recipes"].items()}
    data = None if order["data"] is None else Path(order["data"])
    print(json.dumps(measure(recipes, order["device"], order["threads"], data, order["turns"])))
