"""A study whose 900 answers are all there is run again: its report is written, and MLflow is shown all or nothing new.

Held to by processor time, which other programs of the machine do not stretch as they do the wall clock's.
"""

import resource
import subprocess
import sys
import time

import pytest

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Edition, Search, Study
from service.storage.facts import Confirms
from service.storage.home import Home
from service.tracking.store import look_up
from tests.rooms.by_hand import ByHand, base

pytestmark = pytest.mark.benchmark
LIMIT_S = 20.0
RUN = """
import io, sys
from pathlib import Path
from rich.console import Console
from service.planning.run_options import RunOptions
from service.run_study import run_study
from service.storage import editions
from service.storage.home import Home
from service.terminal.live import Progress

edition = editions.stored(Home(Path(sys.argv[1])), sys.argv[2])
run_study(edition, RunOptions(home=sys.argv[1]), Progress(edition, Console(file=io.StringIO())))
"""


def ablation(root) -> Edition:
    """100 arms of nine seeds."""
    arms = {f"gamma {number}": {"encoding.gamma": 1.0 + number} for number in range(100)}
    edition = Study(name="arms", question="Which?", base=base(), plan=Ablation(arms, "gamma 0"), seeds=9).at()
    with ByHand(root, edition) as hand:
        for trial, seed in hand.runs(arms, 9):
            score = round(0.6 + 0.003 * trial.number + 0.001 * seed, 4)
            hand.complete(trial, seed, score, score)
    return edition


def search(root) -> Edition:
    """295 points of three seeds over two paths, and five confirmations."""
    space = Space({"encoding.gamma": Real(low=0.1, high=400, log=True), "optimizer.lr": Real(low=1e-4, high=0.1)})
    edition = Study(name="points", question="Which?", base=base(), plan=Search(space=space, trials=295), seeds=3).at()
    points = {n: {"encoding.gamma": 0.4 + 0.3 * n, "optimizer.lr": 1e-4 * (1 + n)} for n in range(295)}
    with ByHand(root, edition, seeds=3, trials=295) as hand:
        hand.points("trial", points, lambda number, seed: (0.6 + 0.001 * number + 0.001 * seed, 0.7))
        best = (294, 293, 292, 291, 290)
        hand.journal.write(Confirms(numbers=best))
        hand.points("confirmation", {number: points[number] for number in best}, lambda number, seed: (0.9, 0.8))
    return edition


@pytest.mark.timeout(600)
@pytest.mark.parametrize("make", [ablation, search])
def test_a_study_of_900_answers(make, tmp_path) -> None:
    edition, home = make(tmp_path), Home(tmp_path)
    for what in ("all is sent to MLflow", "nothing is new"):
        before, begun = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        subprocess.run([sys.executable, "-c", RUN, str(tmp_path), edition.id], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        print(f"\n{edition.id}, {what}: {spent:.1f} s of a processor, {time.monotonic() - begun:.1f} s")
        assert spent < LIMIT_S
    store = look_up(home, edition)
    assert store is not None
    trials = 100 if make is ablation else 300
    assert len(store.shown) == 1 + trials + 900
    assert {run.status for run in store.shown.values()} == {"FINISHED"}
