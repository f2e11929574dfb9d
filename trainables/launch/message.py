"""What a worker reports of an epoch; and where a run ends, the environment."""

from __future__ import annotations

import json
import os
import platform
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from trainables.cgroup import cores
from trainables.launch.job import Job
from trainables.recipe import Run
from trainables.recipe.outcome import Diverged, Measurement

CPU_INFO = Path("/proc/cpuinfo")
FRAMEWORKS = ("ray", "optuna", "mlflow")
BEGAN_AGAIN = "the checkpoint was damaged and is set aside (checkpoint.damaged): the run began again"


def message(run: Run, epoch: Measurement | Diverged, job: Job) -> dict[str, Any]:
    """Returns what a worker reports of an epoch, in plain values only: Tune flattens deeper ones."""
    last = is_last(epoch, job)
    return {
        "epoch": epoch.epoch,
        "kind": "diverged" if isinstance(epoch, Diverged) else "measured",
        "result": epoch.model_dump_json(),
        "note": note(job),
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


def host() -> dict[str, Any]:
    """Returns the CPU, its cores and its memory, and the versions of the frameworks that are installed. Cost: 5 ms.

    Units: `host_memory_gib` of the whole machine; `host_cores` that this process may use.
    """
    lines = CPU_INFO.read_text(encoding="utf-8").splitlines() if CPU_INFO.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if "model name" in line]  # Linux has it in a file
    cpu = names[0] if names else platform.processor()
    machine: dict[str, Any] = {"host_cpu": cpu, "host_cores": cores(), "host_memory_gib": memory_gib()}
    for name in FRAMEWORKS:
        with suppress(metadata.PackageNotFoundError):
            machine[name] = metadata.version(name)
    return {name: value for name, value in machine.items() if value}


def memory_gib() -> float:
    """Returns the memory of the machine; 0 if the system does not tell it."""
    if "SC_PHYS_PAGES" not in os.sysconf_names:
        return 0.0
    return round(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30, 1)
