"""A whole study beside scripts of plain Ray Tune, OptunaSearch, timm and MLflow, in processor seconds, interleaved.

12 points x 3 seeds, 4 epochs of 600 images, MLflow on, two runs at a time. All processes count, Ray's own too. locus
answers more (a confirmation of the best, a report), which is left out by a study without early stopping whose points
are arms: the same 36 trainings.
"""

import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.benchmarks.plain_study import BATCH, EPOCHS, LR, POINTS, SEEDS
from tests.journeys.terminal import ROOT
from trainables.data import RedGreen
from trainables.data.red_green_torch import arrays

DATA = RedGreen(train_size=600, val_size=200, test_size=200)
PLAIN = Path(__file__).with_name("plain_study.py")
TICK = os.sysconf("SC_CLK_TCK")
ROUNDS = 2

OURS = f"""
import sys, service
gammas = [0.5 * 80 ** (number / {POINTS - 1}) for number in range({POINTS})]
service.ablate(
    {{f"gamma {{gamma:.3g}}": {{"encoding.gamma": gamma}} for gamma in gammas}},
    base={{
        "data.train_size": {DATA.train_size}, "data.val_size": {DATA.val_size}, "data.test_size": {DATA.test_size},
        "encoding.kind": "fourier", "optimizer.epochs": {EPOCHS}, "optimizer.lr": {LR}, "optimizer.batch_size": {BATCH},
    }},
    baseline=f"gamma {{gammas[0]:.3g}}", seeds={SEEDS}, name="whole", max_concurrent=2, home=sys.argv[1],
)
"""


def processor_seconds(words: list[str]) -> float:
    """Runs a command in a session of its own; the processor seconds of all its processes, seen every 50 ms."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = subprocess.Popen(
        [sys.executable, *words], env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    seen: dict[int, float] = {}
    try:
        while command.poll() is None:
            seen |= used(command.pid)
            time.sleep(0.05)
        assert command.returncode == 0, command.stderr.read().decode()[-2000:]
    finally:
        for pid in used(command.pid):
            os.kill(pid, signal.SIGKILL)
    return sum(seen.values())


def used(session: int) -> dict[int, float]:
    """The processor seconds so far of each living process of a session."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            fields = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found[int(folder.name)] = (int(fields[11]) + int(fields[12])) / TICK
    return found


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_a_whole_study_costs_less_than_plain_scripts(tmp_path):
    """Bound by the trainings themselves, and by starting processes that import torch and timm."""
    parts = arrays(DATA)
    data = tmp_path / "data.npz"
    np.savez(data, *parts["train"], *parts["validation"])
    ratios: dict[str, list[float]] = {"fresh": [], "reused": []}
    for number in range(ROUNDS):
        ours = processor_seconds(["-c", OURS, str(tmp_path / f"home{number}")])
        print(f"\nlocus {ours:.0f} s, {ours / (POINTS * SEEDS * EPOCHS):.2f} s a run and epoch", end="")
        for actors, found in ratios.items():
            folder = tmp_path / f"{actors}{number}"
            folder.mkdir()
            theirs = processor_seconds([str(PLAIN), str(data), str(folder), actors])
            found.append(theirs / ours)
            print(f"; {actors} actors {theirs:.0f} s", end="")
    fresh, reused = (statistics.median(found) for found in ratios.values())
    print(f"\n{fresh:.1f} times less than the default script, {reused:.1f} times less than with reused actors")
    assert fresh >= 5
    assert reused >= 1.8
