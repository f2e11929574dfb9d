"""Measures what arms cost side by side, before a study of which one to take trains them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from search_spaces.study import Ablation
from service.planning.placement import Placement
from service.storage.facts import ArmCost, Costed
from service.storage.history import History
from trainables.cgroup import cores
from trainables.spec import LocusError

TURNS = 10
"""How often each arm trains and predicts, each time for 0.15 seconds."""


def measure_costs(history: History, placement: Placement, data: Path) -> Costed | None:
    """Returns what each arm of a race costs on this machine, by as many processes as runs will train at once.

    None if nothing is to be measured: no race, no new arm, or runs in groups of workers. Cost: 4 s an arm.
    Raises: LocusError with the last line of a process that fails.
    """
    plan = history.edition.study.plan
    arms = {arm.name: arm.recipe for arm in history.edition.arms()} if isinstance(plan, Ablation) and plan.race else {}
    if arms.keys() <= history.costs.arms.keys() or placement.workers:
        return None
    recipes = {name: recipe.plain() for name, recipe in arms.items()}
    asked = {"recipes": recipes, "data": str(data), "turns": TURNS}
    asked |= {"device": placement.device, "threads": placement.threads}
    count = max(1, min(placement.max_concurrent, cores() // placement.threads))
    load = os.getloadavg()[0]
    found = _by_processes(count, json.dumps(asked), placement.threads)
    turns = {name: {of: tuple(s for one in found for s in one[name][of]) for of in found[0][name]} for name in arms}
    return Costed(arms={name: ArmCost(**of_arm) for name, of_arm in turns.items()}, load=load, cores=cores())


def _by_processes(count: int, asked: str, threads: int) -> list[dict[str, dict[str, list[float]]]]:
    command = [sys.executable, "-m", "trainables.launch.costs"]
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads)}

    def measured(_: int) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(command, input=asked.encode(), capture_output=True, env=environment, check=False)

    with ThreadPoolExecutor(count) as pool:
        ended = list(pool.map(measured, range(count)))
    for process in ended:
        if process.returncode:
            raise LocusError(
                f"an arm cannot be measured: {process.stderr.decode(errors='replace').strip().rpartition(chr(10))[2]}"
            )
    return [json.loads(process.stdout) for process in ended]
