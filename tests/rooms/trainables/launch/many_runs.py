"""Trains 30 runs in one process, started by test_worker.py; prints the resident memory after each, in MiB, as JSON."""

import json
import resource
import tempfile
from pathlib import Path

from trainables.launch.job import Job
from trainables.launch.worker import work
from trainables.recipe import Recipe, Run
from trainables.recipe.code_digest import CodeDigests

KINDS = ("fourier", "irpe", "peg")


def resident() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / 2**20


def main() -> None:
    codes, found = CodeDigests(), []
    for seed in range(30):
        values = {"encoding.kind": KINDS[seed % 3], "data.train_size": 1000, "optimizer.epochs": 1}
        run = Run(recipe=Recipe().put(values), seed=seed)
        with tempfile.TemporaryDirectory() as folder:
            work(Job(run=run, code=codes(run.recipe), label="0", attempt=1, folder=folder), lambda message: True)
        found.append(resident())
    print(json.dumps(found))


if __name__ == "__main__":
    main()
