"""The same from Python: `sweep` and `ablate`, and their results as a notebook uses them, on a real Ray."""

import math

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

import service
from trainables.data.splits_torch import load

SMALL = {
    "data.image_size": 16,
    "data.train_size": 120,
    "data.val_size": 40,
    "data.test_size": 60,
    "model.embed_dim": 16,
    "model.num_heads": 2,
    "optimizer.epochs": 2,
    "optimizer.batch_size": 40,
}
GAMMA = {"encoding.gamma": service.Real(low=0.1, high=30.0, log=True)}
pytestmark = [pytest.mark.slow, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


def swept(home, **more):
    return service.sweep(
        {**SMALL, "data.task": "direction", "encoding.kind": "fourier"},
        GAMMA,
        trials=4,
        seeds=2,
        home=str(home),
        **more,
    )


def test_a_sweep_is_a_study_that_resumes(home, capsys):
    result = swept(home, name="reach")
    trials = result.trials()
    assert len(trials) == len(result.rows) >= 4
    assert len(result.table()) >= 2 * 4
    assert result.rows[0].recipe.encoding.kind == "fourier"
    assert result.best is None, "so small a study learns nothing"
    assert "above chance" in result.headline
    capsys.readouterr()
    again = swept(home, name="reach")
    assert "plan: reach@base: 0 runs to train" in capsys.readouterr().out
    assert [row.recipe for row in again.rows] == [row.recipe for row in result.rows]
    assert repr(again).startswith("reach@base: Which values are best?")
    assert "<table" in again._repr_html_()


def test_a_trial_comes_with_its_weights(home):
    result = service.result("reach", home=str(home))
    trial = result.rows[0]
    for seed, run in trial.runs.items():
        images, targets = load(trial.recipe.data).test.batch(slice(0, 60), torch.float32)
        with torch.no_grad():
            right = (trial.model(seed).eval()(images).argmax(dim=1) == targets).double().mean()
        assert float(right) == run.final("test/accuracy")
    again = service.rerun(trial.trial.runs(1)[0].key, home=str(home))
    assert again.equal
    assert again.compared > 0


def test_an_ablation_compares_with_its_baseline(home):
    result = service.ablate(
        {
            "none": {},
            "sinusoidal": {"encoding.kind": "sinusoidal"},
            "peg": {"encoding.kind": "peg"},
        },
        base={**SMALL, "data.task": "absolute"},
        baseline="none",
        seeds=3,
        name="arms",
        home=str(home),
    )
    assert set(result.scores) == {"none", "sinusoidal", "peg"}
    assert all(scores.n == 3 for scores in result.scores.values())
    gap = result.differences["peg"]
    ours = [_test_score(result, "peg", seed) - _test_score(result, "none", seed) for seed in range(3)]
    assert math.isclose(gap.mean, sum(ours) / 3, abs_tol=1e-12)
    assert 0 <= gap.p <= 1
    assert result.claims == []
    page = result.report()
    assert page.name == "report.html"
    assert "sinusoidal" in page.read_text()
    assert len(result.trials()) == 3
    assert len(result.table()) == 9
    assert result.mlflow_url


def test_own_arrays_are_swept_and_its_best_recipe_is_an_arm(home):
    """Real runs: what the callbacks were told is what the tables say."""
    images, labels = load_digits(return_X_y=True)
    data = (images[:300] * 15).astype(np.uint8).reshape(-1, 8, 8), labels[:300]
    small = {path: value for path, value in SMALL.items() if not path.startswith("data.")} | {"model.patch_size": 2}
    told = []
    result = service.sweep(
        {**small, "encoding.kind": "fourier"},
        GAMMA,
        trials=2,
        seeds=1,
        question="Which gamma reads digits?",
        data=data,
        callbacks=[told.append],
        home=str(home),
    )
    assert repr(result).startswith(f"{result.edition.id}: Which gamma reads digits?")
    assert "Which gamma reads digits?" in result.report().read_text()
    runs = result.table().set_index(["trial", "seed"])["val/accuracy"]
    last = [end for end in told if isinstance(end, service.EpochEnd) and end.epoch == SMALL["optimizer.epochs"]]
    assert {(end.trial, end.seed): end.values["val/accuracy"] for end in last} == dict(runs)
    trials = {end.trial: (end.status, end.mean) for end in told if isinstance(end, service.TrialEnd)}
    table = result.trials().set_index("trial")
    assert trials == {label: (table.loc[label, "status"], table.loc[label, "mean"]) for label in table.index}
    arms = {"none": {"encoding.kind": "none"}, "best": {}}
    again = service.ablate(arms, baseline="none", base=result.rows[0].recipe, seeds=1, name="of-best", home=str(home))
    assert again.named["best"].recipe == result.rows[0].recipe
    assert again.table().set_index("name").reused.to_dict() == {"none": False, "best": True}


def _test_score(result, arm, seed):
    return result.named[arm].runs[seed].final("test/accuracy")


def test_an_unnamed_call_is_known_by_what_it_asks(home, monkeypatch):
    from service import api

    asked = []
    monkeypatch.setattr(api, "run", lambda study, **options: asked.append(study))
    for low in (0.1, 0.1, 0.2):
        space = {"encoding.gamma": service.Real(low=low, high=30.0, log=True)}
        service.sweep({"encoding.kind": "fourier"}, space, trials=3)
    service.sweep({"encoding.kind": "fourier"}, GAMMA, trials=9, seeds=7)
    names = [study.name for study in asked]
    assert names[0] == names[1] == names[3] != names[2]
    assert names[0].startswith("sweep-")
    assert {study.at().id.partition("@")[0] for study in asked} == set(names)


def test_every_name_is_what_it_says_also_after_its_use(home):
    """A module that is imported later must not take the place of a verb of the same name."""
    assert [name for name in service.__all__ if not callable(getattr(service, name))] == []
