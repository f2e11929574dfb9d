"""Whether the encodings that are best at one training length are so at a longer one, on a person's own images.

    python -m tests.calibration.lengths record FILE FOLDER    trains, a line of FILE a run: minutes a run
    python -m tests.calibration.lengths replay FILE           a table of what was recorded

`record` trains the arms of `encodings` on a folder with `train`, `val` and `test` (`test`: images that no study sees),
each to the longest length, and keeps which images are right at each. What FILE has is not trained again. `replay`
prints the mean at each length, and what a race that ends arms early would save and lose: after SEEN seeds, those that
are behind at a shorter length train no longer.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from itertools import combinations
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from service import api
from service.planning.stopping import behind
from trainables.data.splits_torch import Reading
from trainables.recipe import Run
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training
from trainables.training.runtime import runtime

Scores = dict[str, dict[int, dict[int, dict[str, str]]]]
"""Which images are right: by arm, seed, length and split."""
SEEN = 3
"""How many seeds of each arm train to the shorter length before an arm may be out."""


def planned(options: argparse.Namespace) -> dict[str, tuple[str, Run]]:
    """The arm and the run of each line that `record` writes, by the line's name."""
    edition = api.resolve("encodings", data=options.folder, budget=options.budget)
    runs = {}
    for arm in edition.arms():
        shortest = arm.recipe.optimizer.lengths[0]
        lengths = [shortest * times for times in options.times]
        rate = options.rates.get(arm.name, arm.recipe.optimizer.lr)
        schedule = {"optimizer.epochs": lengths[-1], "optimizer.lengths": lengths[:-1], "optimizer.lr": rate}
        for seed in options.seeds:
            name = f"{Path(options.folder).name} {arm.name} lr={rate:g} {lengths} seed {seed}"
            runs[name] = (arm.name, Run(recipe=arm.recipe.put(schedule), seed=seed))
    return runs


def trained(run: Run, store: Path) -> dict[int, dict[str, str]]:
    """Which images are right after each length, `1` or `0` an image, by split."""
    right: dict[int, dict[str, str]] = {}
    with runtime(1, "float32"):
        training = Training(run, "cpu", {}, SINGLE, Reading(store))
        ends = {epoch: length for length, epoch in run.recipe.optimizer.measured_at.items()}
        for epoch in range(1, run.recipe.optimizer.trained_epochs + 1):
            training.turn(epoch)
            training.learn(epoch)
            if epoch in ends:
                right[ends[epoch]] = {name: _right(training, name) for name in ("validation", "test")}
    return right


def _right(training: Training, name: str) -> str:
    training.model.eval()
    split, right = getattr(training.splits, name), []
    with torch.inference_mode():
        for pixels, labels in split.batches(torch.split(torch.arange(len(split)), 200), training.dtype):
            right.append(training.model(training.normalize(pixels)).argmax(1) == labels)
    return "".join(map(str, torch.cat(right).int().tolist()))


def record(options: argparse.Namespace) -> None:
    """Trains what FILE lacks of this process's share, and writes a line a run."""
    part, parts = map(int, options.share.split("/"))
    for name, (arm, run) in list(planned(options).items())[part::parts]:
        if name in {line["name"] for line in lines(options.file)}:
            continue
        right = trained(run, options.file.with_suffix(".images"))
        line = {"name": name, "data": Path(options.folder).name, "arm": arm, "seed": run.seed, "right": right}
        with options.file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(name, {length: round(share(of["test"]), 4) for length, of in right.items()}, flush=True)


def lines(file: Path) -> list[dict[str, Any]]:
    """The runs that a file has."""
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def share(right: str) -> float:
    """The share of images that are right."""
    return right.count("1") / len(right)


def replay(options: argparse.Namespace) -> None:
    """Prints the mean of each arm at each length, and what early races save and lose, a table a data set."""
    for data in sorted({line["data"] for line in lines(options.file)}):
        scores: Scores = defaultdict(dict)
        for line in lines(options.file):
            if line["data"] == data:
                scores[line["arm"]][line["seed"]] = {int(length): right for length, right in line["right"].items()}
        seeds = sorted(set.intersection(*(set(of_arm) for of_arm in scores.values())))
        lengths = sorted(scores[next(iter(scores))][seeds[0]])
        means = {
            arm: [fmean(share(of_arm[seed][length]["test"]) for seed in seeds) for length in lengths]
            for arm, of_arm in scores.items()
        }
        print(f"{data}: test accuracy after epochs, mean of seeds {seeds}")
        print(f"{'':16}" + "".join(f"{length:8}" for length in lengths))
        for arm, row in sorted(means.items(), key=lambda item: -item[1][-1]):
            print(f"{arm:16}" + "".join(f"{mean:8.4f}" for mean in row))
        best = max(means, key=lambda arm: means[arm][-1])
        for length in lengths[:-1] if len(seeds) >= SEEN else []:
            lost, out = early(scores, seeds, length, best)
            saved = out * (1 - length / lengths[-1])
            print(f"a race at {length} epochs saves {saved:.0%} of the training, and loses the best in {lost:.0%}")


def early(scores: Scores, seeds: list[int], length: int, best: str) -> tuple[float, float]:
    """How often a race at a length loses the best arm, and the share of arms that are out; over choices of seeds."""
    lost, out = [], []
    for chosen in combinations(seeds, SEEN):
        right = {arm: [of_arm[seed][length]["validation"] for seed in chosen] for arm, of_arm in scores.items()}
        rows = {arm: [share(of_seed) for of_seed in of_arm] for arm, of_arm in right.items()}
        behind_best = behind(rows, len(rows), 1 / len(right[best][0]))
        lost.append(best in behind_best)
        out.append(len(behind_best) / len(rows))
    return fmean(lost), fmean(out)


def main() -> None:
    """Records or replays."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("act", choices=["record", "replay"])
    parser.add_argument("file", type=Path)
    parser.add_argument("folder", nargs="?")
    parser.add_argument("--budget", default="cpu", help="the budget of encodings whose shortest length counts")
    parser.add_argument("--times", type=json.loads, default=[1, 2, 4, 8, 16, 32], help="lengths, as a list of JSON")
    parser.add_argument("--seeds", type=json.loads, default=[0], help="a list of JSON")
    parser.add_argument("--rates", type=json.loads, default={}, help="the rate of each arm, a mapping of JSON")
    parser.add_argument("--share", default="0/1", help="0/2 and 1/2: which half of the runs this process trains")
    options = parser.parse_args()
    {"record": record, "replay": replay}[options.act](options)


if __name__ == "__main__":
    main()
