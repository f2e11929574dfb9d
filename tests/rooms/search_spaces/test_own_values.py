"""Values of the user's own on an ablation: those that leave each arm what its name says, and those that do not."""

import numpy as np
import pytest

from search_spaces.fit import kept_form, kept_size
from search_spaces.leaves import leaves
from search_spaces.library import find
from search_spaces.study import Ablation, Score, Study
from service import api
from service.planning.run_options import RunOptions
from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.backbones import CaiT, ViT
from trainables.data import Arrays, Cifar10, Folder, RedGreen
from trainables.encodings import Fourier
from trainables.recipe import SGD, AdamW, FromTrial, Recipe
from trainables.spec import SpecError


def test_a_value_that_makes_an_arm_other_than_its_name_is_refused(subtests):
    for name, path, value in [
    ("direction", "encoding.kind", "rotary"),
    ("peg-kernel", "encoding.kernel", 5),
    ("concat-vs-add", "model.kind", "swin"),
    ("concat-vs-add", "encoding.injection.kind", "extend"),
]:  # fmt: skip
        with subtests.test(f"{name}, {path}, {value}"):
            said = rf"{path} is what arms of {name} differ in: “.*” sets it, and “.*” would no longer be what its name"
            with pytest.raises(SpecError, match=f"{said} says"):
                find(name).at(set={path: value})
            node, _, last = path.rpartition(".")
            if last == "kind":
                with pytest.raises(SpecError, match=f"{said} says"):
                    find(name).at(set={node: {last: value}})


def test_values_that_no_arm_is_known_by_may_be_set(subtests):
    for name, path, value in [
    ("direction", "model.embed_dim", 32),
    ("gabor-depth", "optimizer.lr", 0.01),
    ("cpvt-encodings", "encoding.kernel", 5),
    ("cifar-baselines", "data.kind", "digits"),
    ("atlas", "model.depth", 3),
]:  # fmt: skip
        with subtests.test(f"{name}, {path}, {value}"):
            assert find(name).at(set={path: value}).own_paths == (path,)


@pytest.fixture
def pets(tmp_path):
    photos = image_folder(tmp_path / "pets", {"train": 60})
    for path in photos.rglob("*.png"):
        picture(int(path.stem), 64, 48).save(path)
    return str(photos)


def test_a_node_says_the_same_as_its_fields_one_by_one(pets, tmp_path):
    """Of sizes that follow from the images, of what is tuned, of a preset, and of images as they lie in a file."""
    np.savez(tmp_path / "set.npz", images=np.zeros((90, 48, 48), np.uint8), labels=np.arange(90) % 3)
    arrays = str(tmp_path / "set.npz")
    images = {"data.kind": "folder", "data.path": pets}
    for nodes, fields in [
        (
            {"data": Folder(path=pets, image_size=24, test_size=9)},
            images | {"data.image_size": 24, "data.test_size": 9},
        ),
        ({"data": {"kind": "folder", "path": pets, "image_size": 24}}, images | {"data.image_size": 24}),
        ({"data": Folder(path=pets)}, images),
        ({"data": Arrays(path=arrays)}, {"data.kind": "arrays", "data.path": arrays}),
        (
            images | {"model": ViT(patch_size=2, depth=2)},
            images | {"model.kind": "vit", "model.patch_size": 2, "model.depth": 2},
        ),
        (images | {"model": CaiT(depth=3)}, images | {"model.kind": "cait", "model.depth": 3}),
        (
            images | {"optimizer": SGD(epochs=7, batch_size=10)},
            images | {"optimizer.kind": "sgd", "optimizer.epochs": 7, "optimizer.batch_size": 10},
        ),
    ]:
        node, flat = (api.resolve("encodings", set=own, arms=["sinusoidal"]) for own in (nodes, fields))
        assert node.study == flat.study
        assert {*flat.own_paths} == {*node.own_paths} - {f"data.{name}" for name in (*Folder.READ, *Arrays.READ)}
        assert node.stated_time == flat.stated_time
    for own in ({"optimizer": {"kind": "adamw", "lr": 0.01}}, {"optimizer": AdamW(lr=0.01)}, {"optimizer.lr": 0.01}):
        with pytest.raises(SpecError, match=r"encodings tunes only optimizer[.]lr, so --set leaves nothing to tune"):
            api.resolve("encodings", set=images | own)
    for own in ({"optimizer": {"kind": "adamw", "epochs": 3}}, {"optimizer.kind": "adamw", "optimizer.epochs": 3}):
        optimizer = api.resolve(
            "direction", set=own | {"model.depth": 2, "augment.kind": "none"}, preset="deit"
        ).study.base.optimizer
        assert (optimizer.epochs, optimizer.lr) == (3, 5e-4)


def test_a_node_of_images_beside_data_is_refused(pets):
    for own in ({"data": Folder(path=pets)}, {"data": {"kind": "digits"}}):
        with pytest.raises(SpecError, match=r"^set must leave out data, as data says it$"):
            api.resolve("encodings", data=pets, set=own)


def test_leaves_of_lists_of_own_classes_and_of_values_of_others_stay_whole():
    parts = {"kind": "composed", "parts": [{"kind": "sinusoidal"}, {"kind": "peg"}]}
    parent = {"kind": "from_trial", "values": {"data.task": "distance", "encoding": {"kind": "peg"}}}
    own = {"kind": "mine.py:Spiral", "source": "", "inner": {"kind": "x", "turns": 3}}
    found = leaves({"encoding.kind": "peg", "encoding": parts, "init": parent, "data": own, "loss": {"kindless": 1}})
    assert found == {
        "encoding.kind": "peg", "encoding.parts": parts["parts"], "init.kind": "from_trial",
        "init.values": parent["values"], "data.kind": own["kind"], "data.source": "", "data.inner": own["inner"],
        "loss": {"kindless": 1},
    }  # fmt: skip


def test_arms_that_are_one_recipe_are_refused():
    arms = {"none": {}, "fourier": {"encoding.kind": "fourier", "encoding.gamma": 2.5}}
    with pytest.raises(SpecError, match="arms must be different recipes, got 'none' and 'fourier' alike"):
        Study(name="same", question="?", base=Recipe(encoding=Fourier(gamma=2.5)), plan=Ablation(arms, "none"))


def test_a_study_keeps_its_side_and_its_counts_with_images_of_ones_own(pets):
    """Patches and time are for them. A side, a count or a patch that is given counts, and a small set is used whole."""

    def images(**own):
        return api.resolve("rope-vit", budget="cpu", data=pets, set=own).study.base.data

    assert (images().image_size, images().train_size, images().val_size) == (32, None, None)
    assert images(**{"data.image_size": 48}).image_size == 48
    assert images(**{"model.patch_size": 16, "test_sizes": []}).image_size == Folder(path=pets).image_size
    few = find("rope-vit").at("cpu", set={"data.train_size": 100, "data.val_size": 8}).study
    kept = Study(**{**dict(few), "name": "few"}).at(set={"data.kind": "folder", "data.path": pets}).study.base.data
    assert (kept.train_size, kept.val_size) == (100, 8)
    own = Study(**{**dict(few), "name": "few"}).at(set={"data.kind": "folder", "data.path": pets, "data.train_size": 9})
    assert (own.study.base.data.train_size, own.study.base.data.val_size) == (9, 8)
    assert kept_form({"data.kind": "folder"}, Recipe(data=RedGreen(image_size=24))) == {"data.image_size": 24}


MADE = Recipe(data=RedGreen(skill=True))


def beside(photographs: dict) -> Study:
    """Generated images and stored ones among the arms."""
    plan = Ablation({"made": {}, "photographs": photographs}, "made")
    return Study(name="beside", question="?", base=MADE, plan=plan, score=Score("val/skill"))


def test_own_images_replace_those_of_no_arm(pets, subtests):
    study = beside({"data.kind": "cifar10", "data.skill": True})
    for own in ({"data.kind": "folder", "data.path": pets}, {"data.kind": "red_green"}, {"data.kind": "digits"}):
        with subtests.test(own["data.kind"]), pytest.raises(SpecError, match="would no longer be what its name says"):
            study.at(set=own)


def test_two_arms_whose_names_end_as_digests_and_paths_do_both_count():
    arms = {"a digest": {"optimizer.epochs": 2}, "a path": {"optimizer.epochs": 3}}
    study, other = (
        Study(name="names", question="?", base=MADE, plan=Ablation(some, "a digest"), score=Score("val/skill"))
        for some in (arms, arms | {"a path": {"optimizer.epochs": 4}})
    )
    assert study.at().definition != other.at().definition


def test_counts_are_kept_whatever_else_the_study_has(pets):
    """A parent that is dealt the same, and a number of images of each class."""
    cifar = Recipe(data=Cifar10(train_size=5_000, val_size=1_000), init=FromTrial({"data.train_size": 20_000}))
    assert kept_size({"data.kind": "cifar100"}, cifar) == {
        "data.image_size": 32, "data.train_size": 5_000, "data.val_size": 1_000
    }  # fmt: skip
    few = Recipe(data=Cifar10(samples_per_class=2, val_size=8))
    own = {"data.kind": "folder", "data.path": pets}
    assert kept_size(own, few) == {"data.image_size": 32, "data.train_size": 20, "data.val_size": 8}
    assert kept_size(own | {"data.samples_per_class": 3}, few) == {"data.image_size": 32, "data.val_size": 8}


@pytest.mark.parametrize("model", [{"model": ViT(patch_size=16)}, {"model": {"kind": "vit", "patch_size": 16}}])
def test_a_patch_of_ones_own_decides_the_side_however_it_is_written(pets, model):
    study = ablate_without_running(model, pets)
    assert study == ablate_without_running({"model.patch_size": 16}, pets)
    assert study.data.image_size == Folder(path=pets).image_size


def ablate_without_running(base: dict, data: str) -> Recipe:
    return api._adhoc(base, data, RunOptions(), Ablation({"a": {}}, "a"), "", "?", 1).base
