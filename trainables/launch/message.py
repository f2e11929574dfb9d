"""What a worker reports of an epoch; and where a run ends, the code that trained it and the environment."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from trainables.launch.host import host
from trainables.launch.imported import imported_code
from trainables.launch.job import Job
from trainables.recipe import Run
from trainables.recipe.outcome import Diverged, Measurement

BEGAN_AGAIN = "the checkpoint was damaged and is set aside (checkpoint.damaged): the run began again"


def message(run: Run, epoch: Measurement | Diverged, job: Job) -> dict[str, Any]:
    """Returns what a worker reports of an epoch; where the run ends, with the code that trained it and the environment.

    Plain values only: Tune flattens deeper ones.
    """
    last = is_last(epoch, job)
    return {
        "epoch": epoch.epoch,
        "kind": "diverged" if isinstance(epoch, Diverged) else "measured",
        "result": epoch.model_dump_json(),
        "note": note(job),
        "code": imported_code().code(job.code).digest if last else "",
        "environment": json.dumps(environment(job) if last else {}),
    }


def is_last(epoch: Measurement | Diverged, job: Job) -> bool:
    """Returns whether a run ends with this epoch."""
    return isinstance(epoch, Diverged) or epoch.epoch == job.run.recipe.optimizer.trained_epochs


def note(job: Job) -> str:
    """Returns what a user should know of how a job is trained; empty if all is as planned."""
    notes = [BEGAN_AGAIN] if (Path(job.folder) / "checkpoint.damaged").exists() else []
    if job.more_parts > 1:
        notes.append(f"the GPU's memory did not hold a batch: it is computed in {job.more_parts} times as many parts")
    return "; ".join(notes)


def environment(job: Job) -> dict[str, Any]:
    """Returns where and how a run trained, while it trains: recorded, shown where it is mixed, no part of a key."""
    from trainables.training.checkpoint import recorded_sources
    from trainables.training.runtime import environment as environment_of

    return {
        **environment_of(job.device),
        **host(),
        "workers": job.workers,
        "fused": job.fused,
        "accumulate": job.run.recipe.optimizer.accumulate * job.more_parts,
        **compilation(job),
        "grad_checkpointing": job.grad_checkpointing,
        "commit": os.environ.get("LOCUS_COMMIT", ""),
        **recorded_sources(Path(job.folder)),
    }


def compilation(job: Job) -> dict[str, Any]:
    """Returns whether a job is compiled, and in how many graphs: a compiled run's numbers differ in the last digits."""
    if not job.compile:
        return {"compile": False}
    from trainables.training.optional.compiled import graphs

    return {"compile": True, "graphs": graphs()}
