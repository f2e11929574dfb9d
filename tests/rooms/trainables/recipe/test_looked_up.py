"""Values that name images: what lies there is read where they are given, and kept with them."""

import shutil

import numpy as np
import pytest

from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.backbones import ViT
from trainables.data import folder
from trainables.data.splits_torch import load
from trainables.recipe import FromTrial, Recipe, Run, TaughtByTrial
from trainables.recipe.looked_up import looked_up
from trainables.recipe.recipe import dealt_unlike
from trainables.spec import SpecError


@pytest.fixture
def pets(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return image_folder(tmp_path / "pets", {"train": 10})


def new_image(root):
    picture(250).save(root / "train" / "class_0" / "new.png")


@pytest.mark.parametrize("values", [
    {"data.kind": "folder", "data.path": "pets"},
    {"data": {"kind": "folder", "path": "pets"}},
])  # fmt: skip
def test_a_variant_has_the_images_of_today(pets, values):
    base = Recipe(data=folder.Folder(path=str(image_folder(pets.parent / "other", {"train": 5}))))
    for asked in (values, {"data.path": "pets"}):
        before = base.variant(asked)
        assert base.variant(asked) is before
        new_image(pets)
        after = base.variant(asked)
        assert after == base.put(asked) != before
        assert sum(after.data.images) == sum(before.data.images) + 1
        (pets / "train" / "class_0" / "new.png").unlink()


def test_a_variant_has_the_images_of_the_working_folder_and_of_the_file_of_today(pets, monkeypatch):
    values = {"data.kind": "folder", "data.path": "pets", "data.image_size": 8, "model.patch_size": 4}
    before = Recipe().variant(values)
    base = Recipe()
    assert base.variant(values) == before
    (pets.parent / "elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    shutil.copytree(pets, "pets")
    assert base.variant(values).data.path == str(pets.parent / "elsewhere" / "pets")

    arrays = {"data.kind": "arrays", "data.path": "set.npz", "model.patch_size": 4}
    for side in (8, 12):
        np.savez("set.npz", images=np.zeros((20, side, side), np.uint8), labels=np.arange(20) % 2)
        found = base.variant(arrays)
        assert found == base.put(arrays)
        assert (found.data.side, found.data.image_size) == (side, side)


def test_values_that_were_looked_up_are_not_read_again(pets, monkeypatch):
    values = looked_up({"data.kind": "folder", "data.path": "pets", "data.image_size": 8}, "red_green")
    both = {"init": {"kind": "from_trial", "values": values}, "init.values": {"data.path": "pets"}}
    parent = looked_up(both, "folder")
    assert parent["init"]["values"] == values
    assert parent["init.values"]["data.digest"] == values["data.digest"]
    assert looked_up(parent, "folder") == parent
    for left in ({"data.kind": "digits", "data.path": "pets"}, {"data.path": "nowhere"}):
        assert looked_up(left, "folder") == left
    monkeypatch.setattr(folder, "scan", None)
    base = Recipe()
    assert base.variant(values) is base.variant(values)
    assert base.variant(values).data.path == str(pets)


def spec_of(path):
    return folder.Folder(path=str(path), image_size=8)


VALUES = [{"data.path": "theirs"}, {"data.kind": "folder", "data.path": "theirs", "data.image_size": 8}]


@pytest.mark.parametrize("values", [*VALUES, {"init": {"kind": "from_trial", "values": VALUES[0]}}])
def test_a_parent_stays_what_it_is_when_its_images_change(pets, values, monkeypatch):
    theirs = image_folder(pets.parent / "theirs", {"train": 20})
    recipe = Recipe(data=spec_of(pets), init=FromTrial(values)).put({"model.patch_size": 4})
    parent = recipe.parent if "init" not in values else recipe.parent.parent
    assert (recipe.data, parent.data) == (spec_of(pets), spec_of(theirs))
    text, known = recipe.model_dump_json(), key(recipe)
    new_image(theirs)
    assert key(Recipe(data=spec_of(pets), init=FromTrial(values)).put({"model.patch_size": 4})) != known
    shutil.rmtree(theirs)
    monkeypatch.setattr(folder, "scan", None)
    back = Recipe.read_text(text)
    assert back == recipe
    assert key(back) == known
    assert back.put({"optimizer.epochs": 3}).init == recipe.init


@pytest.mark.parametrize("values", VALUES)
def test_a_teacher_stays_what_it_is_when_its_images_change(pets, values):
    theirs = image_folder(pets.parent / "theirs", {"train": 20})
    recipe = Recipe(data=spec_of(pets), model=ViT(pool="distilled", patch_size=4), teacher=TaughtByTrial(values))
    assert recipe.teacher_recipe.data == spec_of(theirs)
    known = key(recipe)
    new_image(theirs)
    assert key(Recipe.read(recipe.plain())) == known


def test_a_parent_whose_images_are_not_there_is_refused(pets):
    said = r"^init.values must give a valid recipe: data.path must be a folder with images .*, got .*/nowhere"
    with pytest.raises(SpecError, match=said):
        Recipe(data=spec_of(pets), init=FromTrial({"data.path": "nowhere"}))


@pytest.mark.parametrize(("values", "named"), [
    ({"data.test_size": 1}, "data.test_size"),
    ({"data.data_seed": 1}, "data.data_seed"),
    ({"data.val_size": 2, "data.data_seed": 2}, "data.val_size, data.data_seed"),
])  # fmt: skip
def test_a_parent_is_not_trained_on_images_on_which_its_child_is_scored(pets, values, named):
    """It may hold out more of them, use fewer, or have other images; its own parents are asked the same."""
    said = (
        f"^{{}}.values must be with the run's own {named}; else the parent trains on images on which the run is scored"
    )
    with pytest.raises(SpecError, match=said.format("init")):
        Recipe(data=spec_of(pets), init=FromTrial(values))
    with pytest.raises(SpecError, match=said.format("teacher")):
        Recipe(data=spec_of(pets), model=ViT(pool="distilled", patch_size=4), teacher=TaughtByTrial(values))
    theirs = {"data.path": str(image_folder(pets.parent / "theirs", {"train": 20}))}
    for legal in (
        {"data.train_size": 6},
        {"data.test_size": 9},
        {"data.val_size": 1, "data.test_size": 9},
        values | theirs,
    ):
        assert Recipe(data=spec_of(pets), init=FromTrial(legal)).parent.data.path
    back = {"init": FromTrial({"data.path": str(pets), **values})}
    with pytest.raises(SpecError, match=said.format("init")):
        Recipe(data=spec_of(pets), init=FromTrial({**theirs, **back}))


@pytest.mark.parametrize("share", [0.0, 0.3])
def test_a_parent_that_holds_out_more_trains_on_none_of_what_is_scored(pets, share):
    """The order of the images is one, of which the first are held out."""
    whole = spec_of(pets)
    more = whole.put({"val_size": 3 + round(10 * share), "test_size": 4})
    scored = [pixels(whole, split) for split in ("validation", "test")]
    assert dealt_unlike(whole, more) == []
    assert not pixels(more, "train") & set.union(*scored)
    assert dealt_unlike(more, whole) == (["val_size", "test_size"] if share else ["test_size"])
    assert pixels(whole, "train") & (pixels(more, "validation") | pixels(more, "test"))


def pixels(spec, split):
    return {image.numpy().tobytes() for image in getattr(load(spec), split).images}


def test_images_that_are_all_given_are_dealt_alike_with_any_seed(pets):
    root = image_folder(pets.parent / "whole", {"train": 10, "val": 3, "test": 3})
    assert Recipe(data=spec_of(root), init=FromTrial({"data.data_seed": 1})).parent.data.data_seed == 1


def key(recipe):
    return Run(recipe=recipe, seed=0).key
