"""Room: how much a run trains on, in words."""

import re

import numpy as np

from service import api
from service.planning.estimate import image_sources, run_size
from tests.rooms.trainables.data.pictures import image_folder
from trainables.data import Arrays, Cifar10, Folder
from trainables.recipe import Recipe


def recipe(**values):
    return Recipe().put({"data.train_size": 4000, "data.val_size": 500, "data.test_size": 1000} | values)


def test_epochs_and_images_are_named_with_the_least_and_the_most() -> None:
    for recipes, words in [
        ([{}], "8 epochs of 4,000 training images"),
        ([{}, {"data.train_size": 130}], "8 epochs of 130 to 4,000 training images"),
        ([{"optimizer.epochs": 1}], "1 epoch of 4,000 training images"),
        ([{"optimizer.epochs": 3}, {}], "3 to 8 epochs of 4,000 training images"),
    ]:
        made = [recipe(**{"optimizer.epochs": 8, **values}) for values in recipes]
        assert run_size(made) == f"each run: {words}; 500 validation and 1,000 test images"


def test_images_say_where_they_come_from(tmp_path) -> None:
    """Of a folder, of a known set with several sizes, and nothing of images that are made."""
    root = image_folder(tmp_path / "set", {"train": 10, "valid": 2})
    (root / "train" / "class_0" / "x.avif").touch()
    large = Recipe().put({"data.kind": "tiny_imagenet", "model.patch_size": 8})
    recipes = [Recipe(), Recipe(data=Folder(path=str(root))), large, large.put({"data.train_size": 400})]
    assert image_sources(recipes) == [
        f"images of {root}, 3 classes, 224 x 224 pixels: training: 27 images of train/; "
        "validation: 6 images of valid/; test: 3 images held out of train/",
        "few images: one image is 0.17 of a score on 6 validation images and 0.33 of a score on 3 test images; "
        "--set data.test_size=N holds out more to test",
        "there is no test/: data.val_from=train makes valid/ the test set, as in ImageNet; then data.folds=5 validates "
        "on train/ in turn",
        f"1 file is not read: 1 of .avif, such as {root}/train/class_0/x.avif",
        "images of tiny_imagenet, 200 classes, 64 x 64 pixels: training: 400 to 90,000 images of train; "
        "validation: 10,000 images held out of train; test: 10,000 images of val",
    ]


def test_few_images_say_what_one_is_of_a_score_and_how_more_may_be(tmp_path) -> None:
    """Of the held-out images of the newcomer's folder, of folds, and nothing of many."""
    root = image_folder(tmp_path / "set", {"train": 60, "test": 15}, classes=4)

    def said(**own):
        return [line for line in image_sources([Recipe(data=Folder(path=str(root), **own))]) if "few images" in line]

    held = "--set data.val_size=N holds out more to validate; --set data.folds=5 validates on the others in turn"
    one = "few images: one image is 0.042 of a score on 24 validation images and 0.017 of a score on 60 test images"
    assert said() == [f"{one}; {held}"]
    assert said(skill=True)[0].startswith("few images: one image is 0.056 of a score on 24")
    assert said(folds=5) == [one.replace("0.042", "0.021").replace("24", "48")]
    (line,) = image_sources([Recipe(data=Folder(path=str(root), folds=5))])[:1]
    assert line.endswith(
        "training: 192 images of the other folds of train/; validation: 48 images of a fold of train/, another one of "
        "5 for each seed; test: 60 images of test/"
    )
    assert image_sources([Recipe(data=Cifar10(image_size=32))])[1:] == []


def test_what_is_advised_of_few_images_can_be_typed(tmp_path) -> None:
    """Of a study that tunes and races, which takes no folds without images that test."""
    root = str(image_folder(tmp_path / "set", {"": 60}, classes=2))
    base = api.resolve("encodings", data=root).study.base
    (line,) = (line for line in image_sources([base]) if line.startswith("few images"))
    ways = [dict(re.findall(r"--set (\S+)=(\S+)", way)) for way in line.split("; ")[1:]]
    assert len(ways) == 3
    for own in ways:
        own = {path: 20 if value == "N" else int(value) for path, value in own.items()}
        counts = api.resolve("encodings", data=root, set=own, arms=["rotary"]).study.base.data.image_counts
        assert (counts.validation, counts.test) != (12, 12)


def test_a_class_without_an_image_to_score_is_said(tmp_path) -> None:
    """Of 40 classes of five images, 20 have one of the 20 images that validate; of 40 images each class has one."""
    root = str(image_folder(tmp_path / "set", {"train": 5}, classes=40))
    words = (
        "some classes can be without an image among the 20 validation images and 20 test images: those are not scored"
    )
    for data, lines in ((Folder(path=root), [words]), (Folder(path=root, val_size=40, test_size=40), [])):
        assert [line for line in image_sources([Recipe(data=data)]) if line.startswith("some classes")] == lines


def test_copies_among_arrays_are_counted(tmp_path):
    """One of two copies may be trained, and the other scored: a model knows the former by heart."""
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8, 3), np.uint8)
    alike, mixed = images.copy(), images.copy()
    alike[[20, 22, 31]], mixed[[20, 31]] = images[[0, 0, 1]], images[[0, 2]]
    twice = "2 images found more than once (one may be trained, and another scored), such as 0 and 20"
    classes = "1 image found in more than one class, such as 2 and 31"
    for arrays, lines in ((images, []), (alike, [twice]), (mixed, [classes])):
        np.savez(tmp_path / "pets.npz", images=arrays, labels=np.arange(40) % 2)
        data = Arrays(path=str(tmp_path / "pets.npz"))
        assert [line for line in image_sources([Recipe(data=data)]) if " found " in line] == lines
