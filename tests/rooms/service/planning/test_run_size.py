"""Room: how much a run trains on, in words."""

from service.planning.run_size import image_sources, run_size
from tests.rooms.trainables.data.pictures import image_folder
from trainables.data import Folder
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
        f"images of {root}: 27 to train (train/), 3 to validate (held out of train/), 6 to test (valid/); "
        "3 classes in each split",
        f"1 file is not read: 1 of .avif, such as {root}/train/class_0/x.avif",
        "images of tiny_imagenet: 400 to 90,000 to train (train), 10,000 to validate (held out of train), "
        "10,000 to test (val); 200 classes in each split",
    ]
