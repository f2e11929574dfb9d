"""A study whose runs are trained as one model, on a real Ray: it has the same numbers, is extended, and searches."""

import json

import pytest

import service
from service.storage.facts import Ended, FailedWith, Measured, Started, StoppedAt
from service.storage.journal import read
from tests.journeys.test_python import SMALL

EXACT = {**SMALL, "optimizer.epochs": 3, "optimizer.precision": "float64"}
ARMS = {"none": {}, "near": {"encoding.kind": "fourier"}, "far": {"encoding.kind": "fourier", "encoding.gamma": 8.0}}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]


def of(home, kind):
    """The facts of a kind in the journal of the only study of a home."""
    (folder,) = (home / "studies").iterdir()
    return [fact for fact in read(folder / "journal.jsonl")[0] if isinstance(fact, kind)]


def curves(home):
    return {(fact.run, fact.epoch): fact.values["train/loss"] for fact in of(home, Measured)}


def fusions(home):
    environments = [json.loads(path.read_text())["environment"] for path in (home / "outcomes").rglob("*.json")]
    return sorted(environment["fused"] for environment in environments)


def ablated(home, **more):
    return service.ablate(ARMS, baseline="none", base=EXACT, home=str(home), **{"seeds": 3, **more})


def test_a_study_has_the_numbers_that_it_has_without(tmp_path):
    ablated(tmp_path / "alone")
    ablated(tmp_path / "fused", fuse=5, max_concurrent=10)
    alone, fused = curves(tmp_path / "alone"), curves(tmp_path / "fused")
    assert fused == pytest.approx(alone, rel=1e-6)
    assert len({run for run, _ in fused}) == 9
    assert fusions(tmp_path / "alone") == [1] * 9
    assert fusions(tmp_path / "fused") == [1, 3, 3, 3, 5, 5, 5, 5, 5], "three without an encoding, and six with one"
    ablated(tmp_path / "fused", fuse=5, max_concurrent=10, seeds=4)
    assert len(of(tmp_path / "fused", Started)) == len(of(tmp_path / "fused", Ended)) == 12, "three new ones alone"


def test_a_search_ends_all_runs_that_it_begins(tmp_path):
    gamma = {"encoding.gamma": service.Real(low=0.1, high=30.0, log=True)}
    base = {**EXACT, "encoding.kind": "fourier", "optimizer.epochs": 6}
    options = {"trials": 8, "seeds": 2, "fuse": 8, "max_concurrent": 8}
    service.sweep(base, gamma, home=str(tmp_path), **options)
    begun, stopped, ended = ({fact.run for fact in of(tmp_path, kind)} for kind in (Started, StoppedAt, Ended))
    assert not stopped & ended
    assert begun == stopped | ended
    assert not of(tmp_path, FailedWith)
    assert max(fusions(tmp_path)) > 1
