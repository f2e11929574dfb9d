"""A known data set that is not there: the plan says where to put it, and a run is refused before it begins."""

import pytest

import service
from service.api import plan, resolve
from service.planning.run_options import RunOptions
from trainables.spec import LocusError

DEIT = {"augment.kind": "deit"}
LARGE = {"data.image_size": 512, "data.train_size": None, "model.patch_size": 16}


def test_the_plan_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCUS_DATA", str(tmp_path / "sets"))
    _, estimate = plan(resolve("cifar-baselines", budget="smoke"), RunOptions(home=str(tmp_path)))
    must = f"data.kind cifar10 needs its images, whole, in {tmp_path}/sets/cifar-10-batches-py: put them there"
    assert any(line.startswith(must) for line in estimate.lines("cifar-baselines@smoke"))


@pytest.mark.parametrize(("study", "data"), [("cifar-baselines", ""), ("fourier-gamma", "cifar10")])
def test_a_run_is_refused_and_nothing_is_written(tmp_path, monkeypatch, study: str, data: str):
    """Of a search, too, no point of which is proposed yet."""
    monkeypatch.delenv("LOCUS_DATA", raising=False)
    with pytest.raises(LocusError, match=r"in .*/data/cifar-10-batches-py: .*--download; nothing was trained"):
        service.run(study, budget="smoke", data=data, home=str(tmp_path))
    assert not (tmp_path / "studies").exists()


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "images are decoded once, and shared by all runs (0.0 GiB)"),
        (DEIT, "training images are decoded for each batch, by 2 loader workers"),
        (LARGE | DEIT, "images are decoded for each batch, by 2 loader workers"),
        (LARGE, "images are decoded once, and read from the disk for each batch, if it has twice the room (36.7 GiB)"),
    ],
)
def test_the_plan_says_how_images_are_read(tmp_path, values, words):
    resolved = resolve("cifar-baselines", set={"data.test_size": 100, **values})
    about = plan(resolved, RunOptions(home=str(tmp_path), loader_workers=2))[1].about
    assert [line for line in about if " decoded " in line] == [words]
