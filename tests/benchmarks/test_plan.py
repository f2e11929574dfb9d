"""What a plan predicts beside what is measured: time and memory of six recipes, when one seed of each is known."""

import time

import pytest

import service
from service.api import plan
from service.planning.forecast import run_peaks
from service.planning.run_options import RunOptions
from tests.rooms.trainables.data.pictures import image_folder

TINY = {"data.train_size": 2000, "data.val_size": 500, "data.test_size": 500, "optimizer.epochs": 6}
DEIT = {"model.embed_dim": 192, "model.depth": 12, "model.num_heads": 3, "model.patch_size": 8, "data.image_size": 64}
FEW = {"data.train_size": 200, "data.val_size": 100, "data.test_size": 100, "optimizer.epochs": 2}
RECIPES = {
    "one block, Fourier": {**TINY, "encoding.kind": "fourier"},
    "four blocks, iRPE, mean pool": {**TINY, "encoding.kind": "irpe", "model.depth": 4, "model.pool": "avg"},
    "DeiT-Ti at 64 pixels": {**FEW, **DEIT, "encoding.kind": "learnable"},
    "PVT v2 with PEG": {**FEW, "data.image_size": 64, "model.kind": "pvt_v2", "encoding.kind": "peg"},
    "DRLoc, a moving average, parts": {
        **TINY, "model.depth": 2, "auxiliary.kind": "drloc", "optimizer.ema_decay": 0.99, "optimizer.accumulate": 4,
    },
    "a folder with DeiT's augmentation": {"model.depth": 4, "augment.kind": "deit", "optimizer.epochs": 3},
}  # fmt: skip
ARMS = {"one": {}, "other": {"optimizer.lr": 2e-3}}


@pytest.mark.benchmark
@pytest.mark.timeout(1800)
def test_plans_come_true(tmp_path):
    """Bound by how steady the machine is: the time of an epoch is that of one seed."""
    images = image_folder(tmp_path / "images", {"train": 150, "test": 40})
    found = {}
    for name, values in RECIPES.items():
        if name.startswith("a folder"):
            values |= {"data.kind": "folder", "data.path": str(images), "data.image_size": 32}
        sizes = {"base": values, "baseline": "one", "name": "planned", "home": str(tmp_path / name.replace(" ", "_"))}
        first = service.ablate(ARMS, seeds=1, **sizes)
        edition = first.edition.study.at(seeds=4)
        estimate = plan(edition, RunOptions(home=sizes["home"]))[1]
        begun = time.monotonic()
        second = service.ablate(ARMS, seeds=4, **sizes)
        took = time.monotonic() - begun
        assert second.edition.id == first.edition.id
        peak = max(run_peaks(plan(edition, RunOptions(home=sizes["home"]))[0]))
        found[name] = (estimate.seconds / took, estimate.run_gib / peak)
        print(
            f"\n{name}: {estimate.seconds:.0f} s predicted, {took:.0f} s measured; "
            f"{estimate.run_gib:.2f} GiB predicted, "
            f"{peak:.2f} GiB measured; by arithmetic {estimate.weights[0].memory_bytes / 2**30:.2f} GiB",
            end="",
        )
    print()
    for name, (seconds, gib) in found.items():
        assert 1 / 1.5 <= seconds <= 1.5, name
        assert 1 / 1.3 <= gib <= 1.3, name
