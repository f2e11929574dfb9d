"""Folds: each image validates once a deal, whatever the images are like, and the seed says which ones."""

from collections import Counter

import numpy as np
import pytest
from PIL import Image

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Search, Study
from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.data import Cifar10, Flowers102, Folder, ImageCounts
from trainables.data.images_torch import dealt
from trainables.data.splits_torch import Reading, load
from trainables.recipe import Recipe, Run
from trainables.spec import LocusError, SpecError
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training

FOLDS = 3


@pytest.fixture
def root(tmp_path):
    """23 pictures of two uneven classes: of several sizes, in gray, turned by EXIF, and with 8 pictures to test."""
    root = image_folder(tmp_path / "set", {"train": 10, "test": 4}, classes=2)
    turned = Image.Exif()
    turned[0x0112] = 6
    picture(100, 30, 12).save(root / "train" / "class_0" / "turned.jpg", exif=turned, quality=100, subsampling=0)
    picture(101, 9, 31).save(root / "train" / "class_0" / "tall.png")
    Image.new("L", (8, 8), 102).save(root / "train" / "class_0" / "gray.png")
    return root


def folder(root, **own):
    return Folder(path=str(root), image_size=4, folds=FOLDS, **own)


def numbers(split):
    return split.images[:, 0, 0, 0].tolist()


def test_each_image_validates_once_a_deal_and_each_deal_is_another_one(root, tmp_path):
    spec, data = folder(root), tmp_path / "data"
    seeds = [load(spec, Reading(data, seed=seed)) for seed in range(2 * FOLDS)]
    images = {*range(20), 100, 101, 102}
    for seed, one in enumerate(seeds):
        assert spec.counts_at(seed) == ImageCounts(len(one.train), len(one.validation), len(one.test))
        assert {*numbers(one.train)} | {*numbers(one.validation)} == images
        assert not {*numbers(one.train)} & {*numbers(one.validation)}
        assert numbers(one.test) == numbers(seeds[0].test)
        labels = Counter(one.validation.targets.tolist())
        assert labels[0] in (4, 5)
        assert labels[1] in (3, 4)
    for deal in (seeds[:FOLDS], seeds[FOLDS:]):
        assert Counter(number for one in deal for number in numbers(one.validation)) == Counter(images)
    assert {*numbers(seeds[0].validation)} not in [{*numbers(one.validation)} for one in seeds[FOLDS:]]
    other = load(folder(root, data_seed=1), Reading(seed=0))
    assert {*numbers(other.validation)} != {*numbers(seeds[0].validation)}
    assert len([*(data / "decoded").glob("*.npy")]) == 2, "all seeds share what was decoded"
    assert spec.image_counts == spec.counts_at(FOLDS - 1) == ImageCounts(16, 7, 8)
    assert spec.overlap == pytest.approx(7 / 16)


def test_without_test_images_the_fold_tests_and_nothing_is_held_out(tmp_path):
    root = image_folder(tmp_path / "set", {"train": 6}, classes=2)
    spec = folder(root)
    assert (spec.cross_validated, spec.image_counts) == (True, ImageCounts(8, 4, 4))
    assert spec.described()[:3] == (
        "of the other folds of train/", "of a fold of train/, another one of 3 for each seed", "of the same fold",
    )  # fmt: skip
    for seed in range(FOLDS):
        one = load(spec, Reading(seed=seed))
        assert numbers(one.test) == numbers(one.validation)
    base = Recipe(data=spec)
    Study(name="a", question="?", base=base, plan=Ablation({"a": {}, "b": {"encoding.kind": "peg"}}, "a"))
    rates = Space({"optimizer.lr": Real(1e-4, 1e-2)})
    raced = Ablation({"a": {}, "b": {"encoding.kind": "peg"}}, "a", race=True)
    for plan in (Search(rates), raced):
        with pytest.raises(SpecError, match=r"data[.]test_size must be given, or a folder test, where data[.]folds is"):
            Study(name="a", question="?", base=base, plan=plan)
    held = folder(root, test_size=3)
    assert (held.cross_validated, held.image_counts) == (False, ImageCounts(6, 3, 3))
    seeds = [load(held, Reading(seed=seed)) for seed in range(FOLDS)]
    assert {number for one in seeds for number in numbers(one.validation)} == {*range(12)} - {*numbers(seeds[0].test)}
    Study(name="a", question="?", base=Recipe(data=held), plan=Search(rates))


def test_a_run_trains_on_all_but_its_fold_and_arms_share_it(root):
    """Images that stay as they are, and such as are changed one by one and therefore streamed."""
    spec = folder(root)
    for seed in (1, FOLDS + 1):
        expected = load(spec, Reading(seed=seed))
        for values in ({}, {"encoding.kind": "peg"}, {"augment.kind": "deit"}):
            recipe = Recipe(data=spec).put({"model.patch_size": 2, **values})
            splits = Training(Run(recipe=recipe, seed=seed), "cpu", {}, SINGLE, Reading()).splits
            assert splits.train.targets.tolist() == expected.train.targets.tolist()
            assert numbers(splits.validation) == numbers(expected.validation)


def test_folds_are_in_the_key_and_their_absence_is_not(root):
    def key(data, seed=0):
        return Run(recipe=Recipe(data=data), seed=seed).key

    plain = Folder(path=str(root), image_size=4)
    assert "folds" not in plain.identity()
    specs = [plain, folder(root), plain.model_copy(update={"folds": 4}), folder(root, data_seed=1)]
    assert len({key(one, seed) for one in specs for seed in (0, 1, FOLDS)}) == 12
    assert folder(root).decoded_name != plain.decoded_name


def test_what_folds_cannot_be_is_one_sentence(root, tmp_path):
    for values, sentence in (
        ({"folds": 11}, "folds must be at most 10, the training images of the rarest class, got 11"),
        ({"folds": 1}, "folds must be a number of folds from 2 on, or null for one validation set, got 1"),
        ({"val_size": 4}, "val_size must be null where folds is given, got 4"),
        ({"train_size": 4}, "train_size must be null where folds is given, got 4"),
        ({"val_from": "test"}, "folds must be null where images of their own validate, got 3"),
    ):
        with pytest.raises(SpecError, match=sentence):
            Folder(path=str(root), **{"folds": FOLDS, **values})
    with pytest.raises(SpecError, match="folds must be null where images of their own validate"):
        Flowers102(folds=5)
    assert Cifar10(folds=5).image_counts == ImageCounts(40_000, 10_000, 10_000)
    with pytest.raises(LocusError, match=r"data[.]folds must be at most 2, the images of the smallest class, got 3"):
        dealt(np.array([0, 0, 0, 1, 1]), 3, 0, 0)
    (root / "train" / "class_1" / "broken.png").write_bytes(b"no image")
    with pytest.raises(SpecError, match=r"images that can be read, got .*broken.png"):
        folder(root)
