"""Room: how much a run trains on, in words."""

from service.planning.run_size import run_size
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
