"""Trains one task under Ray: the only door to Ray Train.

Workers 0: Ray Train's local mode, in the process that calls. The caller gives `report`, which takes one plain
dictionary an epoch and does not return where the run is to end.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import ray.train
from ray.train.torch import TorchTrainer

from trainables.outcome import Diverged, Measurement
from trainables.recipe import Run
from trainables.task import Task

Report = Callable[[dict[str, Any]], None]


def work(task: Task, report: Report) -> None:
    """Trains a task to its end, reporting epoch by epoch."""

    def loop() -> None:
        _loop(task, report)

    TorchTrainer(loop, scaling_config=ray.train.ScalingConfig(num_workers=0)).fit()


def _loop(task: Task, report: Report) -> None:
    import torch

    from trainables.train import train

    torch.set_num_threads(task.threads)
    parent = Path(task.parent) if task.parent else None
    with closing(train(task.run, Path(task.folder), task.device, parent=parent)) as epochs:
        for said in epochs:
            report(message(task.run, said, task))


def message(run: Run, said: Measurement | Diverged, task: Task) -> dict[str, Any]:
    """What a worker says of an epoch: plain values only (Tune flattens deeper ones), with the environment where the run ends."""
    last = isinstance(said, Diverged) or said.epoch == run.recipe.optimiser.epochs
    return {
        "epoch": said.epoch,
        "kind": "diverged" if isinstance(said, Diverged) else "measured",
        "said": said.model_dump_json(),
        "environment": json.dumps(environment(task) if last else {}),
    }


def environment(task: Task) -> dict[str, Any]:
    """Where a run trained: recorded, shown where mixed, never deciding."""
    import timm
    import torch

    return {
        "python": platform.python_version(),
        "torch": torch.__version__,
        "timm": timm.__version__,
        "device": torch.cuda.get_device_name() if task.device.startswith("cuda") else "cpu",
        "machine": platform.machine(),
        "threads": task.threads,
        "workers": task.workers,
        "commit": os.environ.get("LOCUS_COMMIT", ""),
    }
