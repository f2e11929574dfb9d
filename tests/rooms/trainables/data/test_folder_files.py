"""What lies in a folder as people have it; folds of it, of which each image validates once."""

import os
import shutil
from collections import Counter

import numpy as np
import pytest
from PIL import Image

from search_spaces.space import Real, Space
from search_spaces.study import Ablation, Search, Study
from service.analysis.scores import score_scale
from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.data import Cifar10, Flowers102, Folder, ImageCounts, folder
from trainables.data.class_names_torch import class_names
from trainables.data.folder import scan
from trainables.data.images_torch import dealt
from trainables.data.splits_torch import Reading, load
from trainables.recipe import Recipe, Run
from trainables.spec import LocusError, SpecError
from trainables.training.distributed import SINGLE
from trainables.training.loop import Training


@pytest.fixture(autouse=True)
def _own_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def root(tmp_path):
    return image_folder(tmp_path / "set", {"train": 10, "val": 2, "test": 2})


def folder_of(root, **own):
    return Folder(path=str(root), image_size=4, **own)


def remarks(root):
    return folder_of(root).described().remarks


def test_the_usual_names_of_splits_mean_the_same_set(root):
    before = folder_of(root)
    for val, train, test in (("valid", "Train", "TEST"), ("validation", "train", "test"), ("Dev", "TRAIN", "Test")):
        for old, new in zip(sorted(root.iterdir()), (test, train, val), strict=True):
            old.rename(root / f"{new}.")
        for moved in root.iterdir():
            moved.rename(str(moved).removesuffix("."))
        spec = folder_of(root)
        assert (spec.digest, spec.available) == (before.digest, ImageCounts(30, 6, 6))
        assert spec.described()[:3] == (f"of {train}/", f"of {val}/", f"of {test}/")
        assert {*load(spec).validation.images[:, 0, 0, 0].tolist()} == {*range(30, 36)}


HELD = "held out of train/"


def test_a_split_is_what_it_is_called_and_val_from_decides_where_one_is_missing(tmp_path):
    """The numbers of pictures: train has 0 to 29, val 30 to 35 and test the next six, as far as they are there."""
    train, val = {*range(30)}, {*range(30, 36)}
    cases = [
        (("val", "test"), None, ("of val/", "of test/"), (val, {*range(36, 42)})),
        (("val",), None, ("of val/", HELD), (val, train)),
        (("val",), "train", (HELD, "of val/"), (train, val)),
        (("test",), None, (HELD, "of test/"), (train, val)),
        (("test",), "train", (HELD, "of test/"), (train, val)),
        (("test",), "test", ("held out of test/", "of test/"), (val, val)),
        ((), None, (HELD, HELD), (train, train)),
        ((), "train", (HELD, HELD), (train, train)),
    ]
    keys = {}
    for splits, val_from, sentences, sources in cases:
        root = tmp_path / "-".join(["train", *splits])
        if not root.exists():
            image_folder(root, {"train": 10} | dict.fromkeys(splits, 2))
        spec = folder_of(root, val_from=val_from)
        assert spec.described()[1:3] == sentences, (splits, val_from)
        loaded = load(spec)
        of = [{*split.images[:, 0, 0, 0].tolist()} for split in (loaded.train, loaded.validation, loaded.test)]
        assert ImageCounts(*map(len, of)) == spec.image_counts
        assert of[1] <= sources[0]
        assert of[2] <= sources[1]
        assert len({*of[0], *of[1], *of[2]}) == sum(spec.image_counts), "no image is in two splits"
        assert val_from != "test" or of[1] | of[2] == val
        keys[splits, val_from] = Run(recipe=Recipe(data=spec), seed=0).key
    same = [keys[splits, None] == keys[splits, "train"] for splits in (("test",), ())]
    assert same == [True, True], "what a folder does anyway makes no other question"
    assert len({*keys.values()}) == 6
    for splits, val_from, must in (
        ("train-val-test", "train", "null where there are val/ and test/"),
        ("train-val-test", "test", "null where there are val/ and test/"),
        ("train-val", "test", "train or null where there is no test/"),
        ("train", "test", "train or null where there is no test/"),
    ):
        with pytest.raises(SpecError, match=f"val_from must be {must}, got '{val_from}'"):
            folder_of(tmp_path / splits, val_from=val_from)


def test_the_plan_says_what_may_take_the_place_of_a_missing_split(root):
    assert remarks(root) == ()
    (root / "test").rename(root.parent / "test")
    (text,) = remarks(root)
    assert text.startswith("there is no test/: data.val_from=train makes val/ the test set, as in ImageNet; then ")
    assert folder_of(root, val_from="train").described().remarks == ()
    shutil.rmtree(root / "val")
    (root.parent / "test").rename(root / "test")
    assert remarks(root) == ("there is no val/: data.val_from=test lets half of test/ validate",)


def test_an_answer_of_when_val_was_the_test_set_never_counts(root):
    """A spec of that time has the same digest, and says that no image of its own validates."""
    shutil.rmtree(root / "test")
    now = folder_of(root)
    then = now.model_copy(update={"images": (30, 0, 6), "most": (1 / 3, 1 / 3), "least": (1 / 3, 1 / 3)})
    others = [now, folder_of(root, val_from="train")]
    keys = [Run(recipe=Recipe(data=data), seed=0).key for data in (then, *others)]
    assert then.digest == now.digest
    assert len({*keys}) == 3
    with pytest.raises(LocusError, match=r"^data.images must be \[30, 6, 0\], the numbers .*, got \[30, 0, 6\]"):
        load(then)
    (text,) = then.described().remarks
    assert text.startswith("runs will fail: data.images must be [30, 6, 0], the numbers"), "the plan says so"


def test_classes_that_are_uneven_decide_what_guessing_scores(root):
    """A constant answer scores the share of the most frequent class; each class counts alike in a balanced accuracy."""
    for number in range(6):
        picture(number).save(root / "test" / "class_1" / f"more{number}.png")
    plain, skill, balanced = (folder_of(root, **own) for own in ({}, {"skill": True}, {"balanced": True}))
    assert (plain.chance("val"), plain.chance("test")) == (1 / 3, 8 / 12)
    assert (skill.chance("test"), skill.score(8 / 12, "test")) == (0.0, 0.0)
    assert (balanced.metric, balanced.chance("test")) == ("balanced_accuracy", 1 / 3)
    assert balanced.step("test") == pytest.approx(1 / (3 * 2)), "one of two images of the rarest of three classes"
    as_with_six = 1 / 3 + 3.0902 * (2 / 9 / 6) ** 0.5
    assert score_scale(balanced, "test").guessing() == pytest.approx(as_with_six, abs=1e-3)


@pytest.mark.parametrize(("change", "sentence"), [
    (lambda root: shutil.copytree(root / "val", root / "valid"), "with one folder a split, got val and valid"),
    (lambda root: shutil.copytree(root / "test", root / "extra"),
     r"folders of images that are not read \(splits are train, val or valid, test\), got extra"),
    (lambda root: (root / "train" / "class_0" / "x.png").symlink_to("/nowhere/x.png"),
     r"of which all can be read, got .*/set/train/class_0/x.png: a link to /nowhere/x.png, which is not there"),
    (lambda root: (root / "train" / "class_9").symlink_to("/nowhere"), r"train/class_9: a link to /nowhere, which"),
    (lambda root: (root / "train" / "class_0" / "up").symlink_to(".."), "class_0/up: it leads to a folder above it"),
    (lambda root: (root / "train" / "class_0" / "up").symlink_to(root.parent), "class_0/up: it leads to a folder abo"),
    (lambda root: (root / "train" / "class_0" / "o.png").symlink_to("o.png"), r"o.png: Too many levels of symbolic"),
    (lambda root: os.mkfifo(root / "train" / "class_0" / "pipe.png"), "pipe.png: it is no file"),
    (lambda root: (root / "train" / "class_0" / "e.png").write_bytes(b""),
     "of images that can be read, got .*/e.png: Pillow does not know its format"),
    (lambda root: Image.new("F", (2, 2)).save(root / "train" / "class_0" / "f.tif"), r"/f.tif: Pillow's mode F, of"),
    (lambda root: [shutil.copytree(root / "test", root / "train" / name) for name in ("caf\xe9", "cafe\u0301")],
     r"whose classes have names that differ to the eye, got 'cafe\\u0301' and 'caf\\xe9'"),
    (lambda root: (root / "test" / "class_1").rename(root / "test" / "class_1 "), "to the eye, got 'class_1' and 'cla"),
], ids=["two val", "extra", "broken link", "broken class", "loop", "above", "self", "pipe", "empty",
        "float", "two cafés", "a blank"])  # fmt: skip
def test_what_cannot_be_read_is_one_sentence_with_its_path(root, change, sentence):
    change(root)
    with pytest.raises(SpecError, match=f"path must be a folder .*{sentence}"):
        folder_of(root)


@pytest.mark.skipif(os.geteuid() == 0, reason="root reads all")
def test_a_folder_without_permission_is_named(root):
    (root / "train" / "class_0").chmod(0)
    try:
        with pytest.raises(SpecError, match=r"train/class_0: Permission denied"):
            folder_of(root)
    finally:
        (root / "train" / "class_0").chmod(0o700)


def test_an_image_beyond_the_limit_is_named_by_its_header(root, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 400)
    picture(3, 30, 30).save(root / "train" / "class_0" / "slide.png")
    with pytest.raises(SpecError, match=r"slide.png: Image size \(900 pixels\) exceeds limit of 800 pixels"):
        folder_of(root)


def test_a_class_may_be_a_link_and_names_may_be_strange(root):
    (root / "test" / "class_1").rename(root.parent / "elsewhere")
    (root / "test" / "class_1").symlink_to(root.parent / "elsewhere")
    picture(1).save(os.fsdecode(os.fsencode(root / "train" / "class_0") + b"/\xff\x1b[31m.png"))
    spec = folder_of(root)
    assert spec.available == ImageCounts(31, 6, 6)
    (root / "train" / "class_0" / "\x1b[31mx.txt").touch()
    assert r"\x1b[31mx.txt" in remarks(root)[0]


def test_files_that_are_not_read_are_counted_and_named(root):
    assert remarks(root) == ()
    for name in ("Thumbs.db", ".DS_Store", "._0001.png", "desktop.ini"):
        (root / "train" / "class_0" / name).write_bytes(b"x")
    (root / ".git").mkdir()
    picture(1).save(root / ".git" / "x.png")
    for name in ("train/class_0/@eaDir/0001.png", "__MACOSX/train/class_0", "train/lost+found", "$RECYCLE.BIN/S-1"):
        (root / name).mkdir(parents=True)  # what a NAS, an archive, a disk and a bin leave
        picture(1).save(root / name / "SYNOPHOTO_THUMB_M.png")
    (root / "notes").mkdir()
    (root / "notes" / "x.txt").touch()
    (root / "labels.csv").touch()
    assert (remarks(root), folder_of(root).images) == ((), (30, 6, 6))
    for name in ("train/class_0/a.jp2", "train/class_1/b.JP2", "val/class_0/c.npy"):
        (root / name).touch()
    picture(1).save(root / "test" / "loose.png")
    (text,) = remarks(root)
    assert text == f"4 files are not read: 2 of .jp2, 1 of .png, 1 of .npy, such as {root}/test/loose.png"


def test_what_becomes_of_unusual_images_is_said(root):
    Image.new("RGBA", (4, 4)).save(root / "train" / "class_0" / "a.png")
    Image.new("LA", (4, 4)).save(root / "train" / "class_0" / "b.png")
    Image.new("I;16", (4, 4)).save(root / "train" / "class_0" / "c.png")
    assert remarks(root) == (
        "2 images can have transparent pixels, which become white", "1 image of 16 bits gray, scaled to 8 bits",
    )  # fmt: skip


def test_copies_of_an_image_are_said(root):
    def copied(at, to):
        shutil.copy(root / at, root / to)
        lines = [line for line in remarks(root) if "more than" in line]
        (root / to).unlink()
        return lines

    first = "train/class_0/0000.png"
    assert copied(first, "train/class_1/x.png") == [
        "1 image found in more than one class, such as train/class_0/0000.png and train/class_1/x.png"
    ]
    assert copied(first, "test/class_0/x.png") == [
        "1 image found in more than one split (scores of images that were trained say little), such as "
        "train/class_0/0000.png and test/class_0/x.png"
    ]
    assert copied(first, "train/class_0/x.png") == [
        "1 image found more than once (one may be trained, and another scored), such as "
        "train/class_0/0000.png and train/class_0/x.png"
    ]
    assert not [line for line in remarks(root) if "more than" in line]
    shutil.copy(root / first, root / "train/class_0/0000 (1).png")
    assert copied(first, "train/class_1/x.png") == [
        "1 image found in more than one class, such as train/class_0/0000 (1).png and train/class_1/x.png"
    ], "one path of each class"


def test_of_several_pages_the_first_counts(root):
    pages = [picture(number) for number in (1, 2)]
    pages[0].save(root / "train" / "class_0" / "pages.tif", save_all=True, append_images=pages[1:])
    assert remarks(root) == ("1 image of several pages or frames, of which the first counts",)


def test_the_names_of_the_classes_are_those_of_the_training(root):
    """Classes that are called by numbers, in the order of text: 10 before 9."""
    for split in root.iterdir():
        for number, name in enumerate(("10", "2", "9")):
            (split / f"class_{number}").rename(split / name)
    spec = folder_of(root)
    recipe = Recipe(data=spec).put({"model.patch_size": 2})
    picture(99).save(root / "train" / "9" / "new.png")
    assert class_names(Recipe.read(recipe.plain()).data, None) == ("10", "2", "9")
    unknown = spec.model_copy(update={"names": ()})
    assert class_names(unknown, None) == ("output 0", "output 1", "output 2")
    assert Recipe(data=unknown).put({"model.patch_size": 2}).identity() == recipe.identity()


def test_a_teacher_must_know_the_same_classes(tmp_path):
    roots = [image_folder(tmp_path / name, {"train": 10}) for name in ("mine", "theirs", "other")]
    (roots[2] / "train" / "class_1").rename(roots[2] / "train" / "class_11")

    def taught(teacher):
        values = {"data.path": str(teacher), "data.kind": "folder", "data.image_size": 4}
        return Recipe(data=folder_of(roots[0])).put({
            "model.patch_size": 2, "model.pool": "distilled", "teacher": {"kind": "from_trial", "values": values}
        })  # fmt: skip

    assert taught(roots[1]).teacher_recipe is not None
    with pytest.raises(SpecError, match=r"teacher of the student's classes, such as class_1, got 'class_11'"):
        taught(roots[2])


@pytest.mark.parametrize("sizes", [{"val_size": 20, "test_size": 20}, {"train_size": 20}])
def test_which_classes_a_small_split_has_does_not_follow_from_their_names(tmp_path, sizes):
    """40 classes of 5 images: of the 20 that a split has, as many are of the first half of the names as of the other.

    Of 20 random ones of 40 between 5 and 15 are; a sort by name gives 0 or 20.
    """
    root = image_folder(tmp_path / "set", {"train": 5}, classes=40)
    for seed in range(3):
        splits = load(folder_of(root, data_seed=seed, **sizes))
        for split in (splits.validation, splits.test) if "val_size" in sizes else (splits.train,):
            labels = split.targets.tolist()
            assert len({*labels}) == len(labels) == 20
            assert 5 <= sum(label < 20 for label in labels) <= 15


def test_large_folders_are_known_by_size_and_time_and_say_so(root, monkeypatch):
    monkeypatch.setattr(folder, "READ_BYTES", 100)
    (root / "train" / "class_0" / "text.png").write_bytes(b"not looked at")
    before = folder_of(root)
    assert "known by name, size and time of change" in before.described().remarks[0]
    assert scan(str(root))[1] == {}
    path = root / "train" / "class_0" / "0001.png"
    os.utime(path, (1, 1))
    assert folder_of(root).digest != before.digest


def test_guessing_scores_the_share_of_the_most_frequent_class(root):
    for number in range(6):
        picture(number).save(root / "test" / "class_1" / f"more{number}.png")
    assert folder_of(root).most == (1 / 3, 8 / 12)
    shutil.rmtree(root / "val")
    picture(1).save(root / "train" / "class_0" / "more.png")
    assert folder_of(root).most == (11 / 31, 8 / 12), "validation is held out of train"
    assert folder_of(root, val_from="test").frequent == (8 / 12, 8 / 12), "a part of test validates"
    (root / "test").rename(root / "val")
    assert folder_of(root).frequent == (8 / 12, 11 / 31), "the test images are held out of train"
    assert folder_of(root, val_from="train").frequent == (11 / 31, 8 / 12), "val is the test set"
    shutil.rmtree(root / "val")
    assert folder_of(root).frequent == (11 / 31, 11 / 31)


FOLDS = 3


@pytest.fixture
def uneven(tmp_path):
    """23 pictures of two uneven classes: of several sizes, in gray, turned by EXIF, and with 8 pictures to test."""
    uneven = image_folder(tmp_path / "set", {"train": 10, "test": 4}, classes=2)
    turned = Image.Exif()
    turned[0x0112] = 6
    picture(100, 30, 12).save(uneven / "train" / "class_0" / "turned.jpg", exif=turned, quality=100, subsampling=0)
    picture(101, 9, 31).save(uneven / "train" / "class_0" / "tall.png")
    Image.new("L", (8, 8), 102).save(uneven / "train" / "class_0" / "gray.png")
    return uneven


def folded(uneven, **own):
    return Folder(path=str(uneven), image_size=4, folds=FOLDS, **own)


def numbers(split):
    return split.images[:, 0, 0, 0].tolist()


def test_each_image_validates_once_a_deal_and_each_deal_is_another_one(uneven, tmp_path):
    spec, data = folded(uneven), tmp_path / "data"
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
    other = load(folded(uneven, data_seed=1), Reading(seed=0))
    assert {*numbers(other.validation)} != {*numbers(seeds[0].validation)}
    assert len([*(data / "decoded").glob("*.npy")]) == 2, "all seeds share what was decoded"
    assert spec.image_counts == spec.counts_at(FOLDS - 1) == ImageCounts(16, 7, 8)
    assert spec.overlap == pytest.approx(7 / 16)


def test_without_test_images_the_fold_tests_and_nothing_is_held_out(tmp_path):
    uneven = image_folder(tmp_path / "set", {"train": 6}, classes=2)
    spec = folded(uneven)
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
    held = folded(uneven, test_size=3)
    assert (held.cross_validated, held.image_counts) == (False, ImageCounts(6, 3, 3))
    seeds = [load(held, Reading(seed=seed)) for seed in range(FOLDS)]
    assert {number for one in seeds for number in numbers(one.validation)} == {*range(12)} - {*numbers(seeds[0].test)}
    Study(name="a", question="?", base=Recipe(data=held), plan=Search(rates))


def test_a_run_trains_on_all_but_its_fold_and_arms_share_it(uneven):
    """Images that stay as they are, and such as are changed one by one and therefore streamed."""
    spec = folded(uneven)
    for seed in (1, FOLDS + 1):
        expected = load(spec, Reading(seed=seed))
        for values in ({}, {"encoding.kind": "peg"}, {"augment.kind": "deit"}):
            recipe = Recipe(data=spec).put({"model.patch_size": 2, **values})
            splits = Training(Run(recipe=recipe, seed=seed), "cpu", {}, SINGLE, Reading()).splits
            assert splits.train.targets.tolist() == expected.train.targets.tolist()
            assert numbers(splits.validation) == numbers(expected.validation)


def test_folds_are_in_the_key_and_their_absence_is_not(uneven):
    def key(data, seed=0):
        return Run(recipe=Recipe(data=data), seed=seed).key

    plain = Folder(path=str(uneven), image_size=4)
    assert "folds" not in plain.identity()
    specs = [plain, folded(uneven), plain.model_copy(update={"folds": 4}), folded(uneven, data_seed=1)]
    assert len({key(one, seed) for one in specs for seed in (0, 1, FOLDS)}) == 12
    assert folded(uneven).decoded_name != plain.decoded_name


def test_what_folds_cannot_be_is_one_sentence(uneven, tmp_path):
    for values, sentence in (
        ({"folds": 11}, "folds must be at most 10, the training images of the rarest class, got 11"),
        ({"folds": 1}, "folds must be a number of folds from 2 on, or null for one validation set, got 1"),
        ({"val_size": 4}, "val_size must be null where folds is given, got 4"),
        ({"train_size": 4}, "train_size must be null where folds is given, got 4"),
        ({"val_from": "test"}, "folds must be null where images of their own validate, got 3"),
    ):
        with pytest.raises(SpecError, match=sentence):
            Folder(path=str(uneven), **{"folds": FOLDS, **values})
    with pytest.raises(SpecError, match="folds must be null where images of their own validate"):
        Flowers102(folds=5)
    assert Cifar10(folds=5).image_counts == ImageCounts(40_000, 10_000, 10_000)
    with pytest.raises(LocusError, match=r"data[.]folds must be at most 2, the images of the smallest class, got 3"):
        dealt(np.array([0, 0, 0, 1, 1]), 3, 0, 0)
    (uneven / "train" / "class_1" / "broken.png").write_bytes(b"no image")
    with pytest.raises(SpecError, match=r"images that can be read, got .*broken.png"):
        folded(uneven)
