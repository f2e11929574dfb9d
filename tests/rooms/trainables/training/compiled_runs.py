"""Trains runs compiled and not, for test_compiled.py: in a process without the checks of shapes.

Prints what was measured, how many graphs were compiled, and the names in the weights. The backend `aot_eager` traces
forward and backward as the default does, and computes the graphs with torch's own operations: equal to the last bit.
"""

import json
import sys
import tempfile
from functools import partial
from itertools import islice
from pathlib import Path

from tests.rooms.trainables.training.small_runs import LOCALISED, numbers, small
from trainables.encodings import Rotary
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.distributed import SINGLE, DataParallel
from trainables.training.loop import train
from trainables.training.optional.compiled import compiled, graphs
from trainables.training.optional.fused import train_together

COMPILED = DataParallel(wrap=partial(compiled, backend="aot_eager"))
VALUES = {
    "plain": {},
    "in parts": {"optimizer__accumulate": 3},
    "drop path, an average, localization": {
        "model__depth": 3, "model__drop_path": 0.6, "optimizer__ema_decay": 0.9, **LOCALISED
    },
    "float64": {
        "optimizer__precision": "float64", "encoding": Rotary(normalize_coords="max", jitter_coords=2.0)
    },
}  # fmt: skip


def cut(run, folder, first, second):
    """A run that is closed after two epochs and goes on with another team."""
    running = train(run, folder, team=first)
    list(islice(running, 2))
    running.close()
    return numbers(train(run, folder, team=second))


def as_one(root):
    """Three runs that are trained as one, computed eagerly and compiled."""
    found = {}
    for label, more in {"eager": {}, "compiled": {"wrap": partial(compiled, backend="aot_eager")}}.items():
        runs = [small(seed, encoding=Rotary(), model__depth=2) for seed in range(3)]
        folders = [root / label / str(seed) for seed in range(3)]
        for folder in folders:
            folder.mkdir(parents=True)
        told = [*train_together(runs, folders, "cpu", **more)]
        found[label] = [numbers([epoch[seed] for epoch in told]) for seed in range(3)]
    print(json.dumps(found | {"graphs": graphs()}))


def main(name, root):
    if name == "as one":
        as_one(root)
        return
    run = small(**VALUES[name])
    folder = root / "eager"
    folder.mkdir()
    found = {"eager": numbers(train(run, folder)), "names": [[*read(folder / WEIGHTS)]]}
    for label, teams in {"compiled first": (COMPILED, SINGLE), "compiled then": (SINGLE, COMPILED)}.items():
        folder = root / label
        folder.mkdir()
        found[label] = cut(run, folder, *teams)
        found["names"] += [[*read(folder / WEIGHTS)]]
        found[f"graphs, {label}"] = graphs()
    print(json.dumps(found))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as root:
        main(sys.argv[1], Path(root))
