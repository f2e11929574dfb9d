"""What a trial costs beside its training: journal, decisions and MLflow, against plain Tune functions."""

import os
import statistics
import time
from itertools import pairwise

import pytest

import service
from service.storage.home import Home
from service.storage.journal import read
from trainables.recipe import Recipe, Run

PAIRS = 3
ARMS, FEW, SEEDS = 20, 4, 3
BASE = {
    "data.image_size": 16,
    "data.train_size": 32,
    "data.val_size": 32,
    "data.test_size": 32,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "optimizer.batch_size": 32,
    "optimizer.epochs": 1,
    "encoding.kind": "fourier",
}
POINTS = [{"encoding.gamma": 1.0 + number / 10} for number in range(ARMS)]
pytestmark = [pytest.mark.benchmark, pytest.mark.timeout(900)]


def ours(home, count):
    """Seconds a trial in the loop, and of the whole study: Ray, journal, MLflow to its last fact, the report."""
    arms = {f"arm {number}": point for number, point in enumerate(POINTS[:count])}
    begun = time.time()
    result = service.ablate(
        arms, base=BASE, baseline="arm 0", seeds=SEEDS, name="cost", max_concurrent=1, home=str(home)
    )
    took = time.time() - begun
    facts = read(Home(home).study(result.edition.id).journal)[0]
    ended = [fact.time for fact in facts if fact.fact == "ended"]
    assert len(ended) == count * SEEDS
    return loop(ended), took


def plain(folder):
    """Seconds a trial of the same runs as plain Tune functions with reused actors."""
    import ray
    from ray import tune

    os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"
    recipes = [Recipe().put(BASE | point).plain() for point in POINTS]
    ended = []

    class Clock(tune.Callback):
        def on_trial_complete(self, iteration, trials, trial, **info):
            ended.append(time.time())

    def function(config):
        from contextlib import closing
        from pathlib import Path
        from tempfile import TemporaryDirectory

        import torch

        from trainables.training.loop import train

        torch.set_num_threads(1)
        run = Run(recipe=Recipe.read(recipes[config["arm"]]), seed=config["seed"])
        with TemporaryDirectory() as folder, closing(train(run, Path(folder))) as epochs:
            for said in epochs:
                tune.report({"epoch": said.epoch})

    ray.init(address="local", include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        tune.Tuner(
            tune.with_resources(function, {"CPU": 1}),
            param_space={"seed": tune.grid_search(list(range(SEEDS))), "arm": tune.grid_search(list(range(ARMS)))},
            tune_config=tune.TuneConfig(max_concurrent_trials=1, reuse_actors=True),
            run_config=tune.RunConfig(storage_path=str(folder), callbacks=[Clock()], verbose=0),
        ).fit()
    finally:
        ray.shutdown()
    assert len(ended) == ARMS * SEEDS
    return loop(ended)


def loop(ended):
    """Seconds a trial: the median gap between two runs' ends, once the first are behind."""
    ended = sorted(ended)[SEEDS:]
    return SEEDS * statistics.median(after - before for before, after in pairwise(ended))


def test_a_trial_costs_little_beside_its_training(tmp_path):
    told, plains, alls = [], [], []
    for pair in range(PAIRS):
        one, many = ours(tmp_path / f"home{pair}", ARMS)
        _, few = ours(tmp_path / f"small{pair}", FEW)
        told.append(one)
        alls.append((many - few) / (ARMS - FEW))  # what a study costs once, Ray's start and end, is no trial's
        plains.append(plain(tmp_path / f"plain{pair}"))
    mine, theirs, whole = (statistics.median(seconds) for seconds in (told, plains, alls))
    ratio = statistics.median(one / other for one, other in zip(told, plains, strict=True))
    print(
        f"\na trial of {SEEDS} seeds: {mine:.3f} s in the loop, {theirs:.3f} s as plain Tune ({ratio:.2f} x), "
        f"{whole:.3f} s of a whole study, MLflow drained and the report written; load {os.getloadavg()[0]:.1f}"
    )
    assert whole <= 0.4
    assert ratio <= 1.5
