"""Fixed test images: which of them each run has right, and intervals and tests that hold for other images, too."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from search_spaces.claim import Better
from search_spaces.study import Ablation, Score, Study
from service.analysis.evidence import gather
from service.analysis.findings import sentences
from service.analysis.headline import headline
from service.analysis.multiple_testing import Adjusted, difference
from service.analysis.probes import images_look, over_other_images
from service.analysis.statistics import Scale, Scores
from service.analysis.verdicts import images_words
from service.results import Result, compute_probes
from service.storage.home import Home
from tests.rooms.photographs import home_of, photographs, recipe
from trainables.backbones import ViT
from trainables.data import Digits, RedGreen
from trainables.data.splits_torch import Reading, load
from trainables.encodings import Fourier
from trainables.probes.catalog import probe_of
from trainables.probes.inputs.arrays import ProbeError
from trainables.probes.inputs.subject import Subject
from trainables.recipe import AdamW, Recipe
from trainables.recipe.findings import Findings, Probed

SEEDS = 3
ARMS = {"far": {}, "near": {"encoding.gamma": 0.5}}
MODEL = ViT(embed_dim=16, num_heads=2, patch_size=4, pool="avg")


@pytest.fixture(scope="module")
def folder_home(tmp_path_factory) -> Home:
    """Two arms of three seeds, trained on a folder of 60 images and tested on 45."""
    root = tmp_path_factory.mktemp("folder")
    base = recipe(photographs(root / "pets", {"train": 20, "val": 10, "test": 15}))
    plan = Ablation(ARMS, "near")
    home = home_of(root / "home", Study(name="pets", question="?", base=base, plan=plan, seeds=SEEDS))
    compute_probes(Result.open(home, "pets@base"), lambda said: None, lambda: False)
    return home


@pytest.fixture
def home(folder_home: Home, tmp_path: Path) -> Home:
    """A home of its own, without what looks found."""
    shutil.copytree(folder_home.root, tmp_path / "home")
    for file in (tmp_path / "home" / "outcomes").rglob("*.npz"):
        file.unlink()
    return Home(tmp_path / "home")


def opened(home: Home) -> Result:
    return Result.open(home, "pets@base")


def test_a_folder_of_images_gets_which_are_right_and_each_runs_mean_is_its_own_score(home) -> None:
    result, notes = opened(home), []
    assert [(row.name, look) for row, look in result.looked_at] == [(name, "right_images") for name in ARMS]
    assert all(row.test.right == {} for row in result.tested)
    compute_probes(result, notes.append, lambda: False)
    assert notes[0] == "testing 6 models on the test images again, to know which of them each has right"
    result = opened(home)
    for row in result.tested:
        assert {*row.test.right} == {*range(SEEDS)}
        for seed, right in row.test.right.items():
            assert right.shape == (45,)
            assert {*right} <= {0.0, 1.0}
            assert right.mean() == pytest.approx(row.runs[seed].final("test/accuracy"), abs=1e-12)
            images = load(row.recipe.data, Reading(home.data)).test
            (pixels, targets), *_ = images.batches([torch.arange(45)], torch.float32)
            found = row.predict([*pixels], seed).outputs.argmax(axis=1)
            assert (found == targets.numpy()).tolist() == right.astype(bool).tolist(), "in the order of the set"
    assert len({tuple(right) for row in result.tested for right in row.test.right.values()}) > 1
    notes.clear()
    compute_probes(result, notes.append, lambda: False)
    assert notes == [], "nothing is missing"


@pytest.mark.parametrize("skill", [False, True])
def test_digits_have_it_too_also_where_scores_are_skill(tmp_path, skill) -> None:
    data = Digits(train_size=200, val_size=50, test_size=100, skill=skill)
    base = Recipe(data=data, model=MODEL, encoding=Fourier(), optimizer=AdamW(epochs=6, batch_size=20, lr=0.01))
    study = Study(
        name="ten", question="?", base=base, plan=Ablation({"far": {}}, "far"), seeds=SEEDS,
        score=Score(metric=f"val/{data.reported}"),
    )  # fmt: skip
    home = home_of(tmp_path / "home", study)
    compute_probes(Result.open(home, "ten@base"), lambda said: None, lambda: False)
    (row,) = Result.open(home, "ten@base").tested
    for seed in range(SEEDS):
        assert row.test.right[seed].mean() == pytest.approx(row.runs[seed].final(f"test/{data.reported}"), abs=1e-12)
        assert {*row.test.right[seed]} == {row.test.scale.low, 1.0}
    assert row.test.mean > row.test.scale.chance
    assert row.test.estimate.draws == 100


def test_a_seed_that_diverged_is_at_chance_on_each_image() -> None:
    data = Digits(test_size=10, train_size=200)
    right = np.arange(10) < 9
    runs = {seed: SimpleNamespace(right=right) for seed in (0, 1)}
    scale = Scale(0.1, 0.0, 1.0, 0.1)
    found = over_other_images(Scores({0: 0.9, 1: 0.9, 2: 0.1}, 3, scale, frozenset({2})), data, runs)
    assert found.right[2].tolist() == [0.1] * 10
    assert all(array.mean() == pytest.approx(found.values[seed]) for seed, array in found.right.items())
    assert found.estimate.draws == 10
    every = Scores(dict.fromkeys(range(3), 0.1), 3, scale, frozenset(range(3)))
    none = over_other_images(every, data, {})
    good = over_other_images(Scores(dict.fromkeys(range(3), 0.9), 3, scale), data, dict.fromkeys(range(3), runs[0]))
    assert difference(good, none).draws == 10
    unknown = Scores({0: 0.9, 1: 0.9, 2: 0.1}, 3, scale, frozenset({2}))
    lost = {0: runs[0], 1: SimpleNamespace(right=None)}
    assert over_other_images(unknown, data, lost).estimate.draws == 1, "the images of one seed are not known"


def test_a_model_that_answers_otherwise_here_is_not_counted(home, monkeypatch) -> None:
    run = opened(home).tested[0].probes[0]
    own = opened(home).tested[0].test.values[0]
    count = round(own * 45)
    for right, counts in ((count, True), (count + 1, True), (count - 1, True), (45, False)):
        found = Probed(Findings(), Findings(arrays={"right": np.arange(45) < right}))
        monkeypatch.setattr("trainables.probes.catalog.probe_run", lambda *args, found=found: found)
        run.path("right_images").unlink(missing_ok=True)
        after = run("right_images").after
        assert (run.right is not None) == counts
        assert after.note == ("" if counts else f"{right} of 45 test images are right here, {count} in the run")
    row, notes = opened(home).tested[0], []
    assert row.test.right == {}
    assert row.test.estimate.draws == 1
    run.path("right_images").unlink()
    compute_probes(opened(home), notes.append, lambda: False)
    why = f"45 of 45 test images are right here, {count} in the run"
    assert notes[-1] == f"intervals hold for other seeds alone where models answer otherwise here: 6 models ({why})"


FOLDS, NOT_COVERED = sentences()["images.folds"], sentences()["images.these"]
COVERED, PARTLY = (sentences()[f"images.{some} of the generator"] for some in ("all", "some"))
LIKE_THESE, PARTLY_LIKE_THESE = (sentences()[f"images.{some} of their kind"] for some in ("all", "some"))


def test_what_stands_beside_intervals_is_true(folder_home, home) -> None:
    result, bare = opened(folder_home), opened(home)
    assert " on these 45 test images" in headline(bare)
    assert " on these " not in headline(result)
    sets = [row.recipe.data for row in result.tested]
    assert images_words([45, 45], sets) == LIKE_THESE
    assert images_words([45, 1], sets) == PARTLY_LIKE_THESE
    assert images_words([1], sets) == NOT_COVERED
    assert (images_words([5], [RedGreen()]), images_words([5, 1], [RedGreen()])) == (COVERED, PARTLY)
    assert images_words([5, 45], [RedGreen(), *sets]) == LIKE_THESE
    claim = Better("far", "near", 0.0, "ours")
    for study, count in ((result, ", 3 seeds, 45 test images)"), (bare, ", 3 seeds)")):
        assert count in str(gather(claim, study.scores).sentence("INCONCLUSIVE", Adjusted(1.0, 0.05)))
    assert LIKE_THESE in result.report().read_text()
    assert NOT_COVERED in bare.report().read_text()


def test_nothing_is_looked_at_without_weights_or_an_interval(home, monkeypatch) -> None:
    study = opened(home).edition.study
    for changed in (study.model_copy(update={"keep": ()}), study.model_copy(update={"seeds": 2})):
        result = opened(home)
        monkeypatch.setattr(result, "edition", result.edition.model_copy(update={"study": changed}))
        assert result.looked_at == []


def test_balanced_accuracy_numbers_and_folds_have_none_without_a_test_set_of_their_own(tmp_path) -> None:
    base = recipe(photographs(tmp_path / "pets", {"train": 6, "val": 3, "test": 3}))
    balanced = base.put({"data.balanced": True})
    whole = recipe(photographs(tmp_path / "whole", {"train": 6})).put({"data.folds": 3}).data
    held = recipe(photographs(tmp_path / "held", {"train": 6, "test": 3})).put({"data.folds": 3}).data
    looks = [images_look(data) for data in (base.data, balanced.data, whole, held, RedGreen(task="distance"))]
    assert looks == ["right_images", "", "", "right_images", "further_images"]
    assert (images_words([1], [whole]), images_words([9], [held])) == (FOLDS, f"{FOLDS} {LIKE_THESE}")
    with pytest.raises(ProbeError, match="whose metric is accuracy, got balanced_accuracy"):
        probe_of("right_images")(Subject(balanced, None))
