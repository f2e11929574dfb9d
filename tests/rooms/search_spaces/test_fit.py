"""Sizes that follow from the images, and the editions of `--data` and `--arms`."""

import pytest
import torch

from search_spaces.fit import Fit, data_label, data_values, fit_words
from search_spaces.library import find
from search_spaces.study import Ablation
from service import api
from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.data import Cifar10, Digits, Flowers102, Folder, RedGreen
from trainables.recipe import AdamW, Recipe
from trainables.recipe.init_from import digest_of
from trainables.spec import SpecError
from trainables.training.optimizer import highest_rate

FIT = Fit(images=24_000, side=64, most=1_000)
WSD = AdamW(schedule="wsd")


def sizes(data, fit=FIT, **parts):
    """What follows for the plain ViT and these images."""
    return fit.values(Recipe(data=data, **parts))


def test_sizes_follow_from_the_images() -> None:
    """24,000 images: 2 epochs of 12,000 of CIFAR's 45,000, 16 at the longest; a photograph of 224 pixels becomes 64."""
    of_cifar = {
        "data.image_size": 32, "data.train_size": 12_000, "data.val_size": 1_000, "data.test_size": 1_000,
        "test_sizes": [48], "model.patch_size": 4, "optimizer.epochs": 16, "optimizer.batch_size": 100,
    }  # fmt: skip
    assert sizes(Cifar10()) == of_cifar
    assert sizes(Cifar10(), optimizer=WSD) == of_cifar | {"optimizer.lengths": [2, 4, 8]}
    flowers = sizes(Flowers102())
    assert (flowers["data.image_size"], flowers["model.patch_size"], flowers["test_sizes"]) == (64, 8, [96])
    assert (flowers["optimizer.epochs"], flowers["optimizer.batch_size"]) == (8 * (24_000 // 1_020), 50)
    assert flowers["augment.kind"] == "standard"  # 184 epochs
    few = {"data.train_size", "data.test_size"} & {*flowers}
    assert few == {"data.test_size"}  # all 1,020 are trained, and 1,000 of 6,149 tested
    assert sizes(Digits())["model.patch_size"] == 1  # 8 patches of 1 pixel
    assert sizes(RedGreen(image_size=24))["model.patch_size"] == 3
    assert sizes(Cifar10(), Fit(images=100_000_000, side=224, grid=14))["optimizer.epochs"] == 8 * 60


def test_a_folder_has_the_side_of_its_images(tmp_path) -> None:
    folder = Folder(path=str(image_folder(tmp_path / "pets", {"train": 30, "test": 6})))
    assert folder.natural_side == 9  # pictures of 12 x 9 pixels
    assert sizes(folder)["data.image_size"] == 8
    assert sizes(folder)["optimizer.epochs"] == 8 * 60


def test_the_values_of_a_person_come_before_those_that_follow(tmp_path) -> None:
    folder = image_folder(tmp_path / "my pets", {"train": 30, "test": 6})
    own = {"data.image_size": 16, "model.patch_size": 4, "optimizer.epochs": 2}
    edition = api.resolve("encodings", data=str(folder), set=own, arms=["rotary"])
    base, plan = edition.study.base, edition.study.plan
    assert (base.data.image_size, base.model.patch_size, base.optimizer.epochs) == (16, 4, 2)
    assert base.optimizer.batch_size == 25
    assert isinstance(plan, Ablation)
    assert [*plan.arms] == ["learnable", "rotary"]
    assert edition.id.startswith("encodings@cpu~my-pets-")
    assert fit_words(base) == (
        "16 x 16 pixels (tested at 24, too) in 16 patches of 4 x 4, 1 and 2 epochs with 25 images a step"
    )
    other = api.resolve("encodings", data=str(folder))
    assert other.id != edition.id
    assert [*other.study.plan.arms] == ["none", "learnable", "sinusoidal", "rotary", "relative bias", "peg"]
    assert other.stated_time == "estimated 60 min"
    every = api.resolve("encodings", data=str(folder), arms=["all"])
    assert len(every.study.plan.arms) > 10
    assert every.id != other.id
    assert every.stated_time == ""
    assert api.resolve("encodings", data=str(folder)).id == other.id


@pytest.mark.parametrize(("own", "sizes"), [
    ({"data.image_size": 128}, (128, 192, 16)), ({"data.image_size": 96}, (96, 144, 12)),
    ({"data.image_size": 100}, (100, 150, 10)), ({"data.image_size": 32, "model.patch_size": 16}, (32, 48, 16)),
    ({"data.image_size": 32, "model.patch_size": 32}, (32, 64, 32)), ({"model.patch_size": 4}, (64, 96, 4)),
    ({"test_sizes": [80]}, (64, 80, 8)),
])  # fmt: skip
def test_the_other_sizes_follow_from_one_that_is_given(tmp_path, own, sizes) -> None:
    """Photographs of 200 pixels, of which `cpu` takes 64: patches fit, and the larger test images are larger."""
    photos = image_folder(tmp_path / "pets", {"train": 30})
    for path in photos.rglob("*.png"):
        picture(int(path.stem), 300, 200).save(path)
    base = api.resolve("encodings", data=str(photos), set=own, arms=["rotary"]).study.base
    assert (base.data.image_size, *base.test_sizes, base.model.patch_size) == sizes


@pytest.mark.parametrize(("own", "sizes"), [
    ({}, (None, (50, 100, 200, 400), "standard")), ({"optimizer.epochs": 2}, (None, (1, 2), "none")),
    ({"optimizer.epochs": 30}, (None, (3, 7, 15, 30), "standard")),
    ({"optimizer.lengths": [5], "optimizer.epochs": 9}, (None, (5, 9), "none")),
    ({"optimizer.schedule": "cosine"}, (None, (400,), "standard")),
    ({"data.train_size": 40}, (40, (60, 120, 240, 480), "standard")),
    ({"data.samples_per_class": 11}, (None, (60, 120, 240, 480), "standard")),
])  # fmt: skip
def test_lengths_and_augmentation_follow_from_the_images_that_train(tmp_path, own, sizes) -> None:
    photos = str(image_folder(tmp_path / "pets", {"train": 100}))
    base = api.resolve("encodings", data=photos, set=own, arms=["rotary"]).study.base
    assert (base.data.train_size, base.optimizer.every_length, base.augment.kind) == sizes


def test_a_plan_says_that_images_are_flipped(tmp_path) -> None:
    """Arrows to the left, flipped, are arrows to the right: who has such images must know it before the runs."""
    photos = str(image_folder(tmp_path / "arrows", {"train": 30}))
    base = api.resolve("encodings", data=photos, arms=["rotary"]).study.base
    assert fit_words(base).endswith(", flipped at random (where left and right differ: --set augment.kind=none)")
    never = api.resolve("encodings", data=photos, arms=["rotary"], set={"augment.kind": "none"}).study.base
    assert "flipped" not in fit_words(never)


def test_a_model_whose_patches_have_one_size_keeps_it() -> None:
    own = {"model.kind": "timm", "model.name": "vit_tiny_patch16_224"}
    base = api.resolve("encodings", data="cifar10", set=own, arms=["rotary"]).study.base
    assert (base.data.image_size, base.model.patch_size, base.model.embed_dim) == (32, 16, 192)
    other = api.resolve("encodings", data="cifar10", set={"model.kind": "cait"}, arms=["sinusoidal"]).study.base
    assert (other.data.image_size, other.model.kind, other.model.patch_size) == (32, "cait", 4)


def test_what_data_stands_for() -> None:
    assert data_values("cifar10") == {"data.kind": "cifar10"}
    assert data_values("mine.py:Tiles") == {"data.kind": "mine.py:Tiles"}
    assert data_values("./cifar10") == {"data.kind": "folder", "data.path": "./cifar10"}
    assert [data_label(name) for name in ("cifar10", "/a/My Pets/", "../..", "größe")] == [
        "cifar10", "My-Pets", "images", "gr-e",
    ]  # fmt: skip


def test_arms_are_left_out_with_what_is_said_of_them() -> None:
    atlas = find("atlas")
    some = atlas.only(["none"])
    assert {*some.plan.arms} == {"none", "learnable"}
    assert [claim.names for claim in some.claims] == [("learnable", "none")]
    assert some.minutes == {}
    assert atlas.only([]) is atlas
    axes = {"encoding": {"none": {"encoding.kind": "none"}, "peg": {"encoding.kind": "peg"}, "sines": {}},
            "pool": {"token": {}, "mean": {"model.pool": "avg"}}}  # fmt: skip
    without = ({"encoding": "sines", "pool": "mean"}, {"encoding": "peg", "pool": "mean"})
    some = Ablation(axes=axes, baseline="none", without=without).only(["peg"])
    assert [*some.arms] == ["none, token", "none, mean", "peg, token"]
    with pytest.raises(SpecError, match=r"^arms must be some of none, .*, peg, got 'rotry'; did you mean rotary\?$"):
        atlas.only(["rotry"])
    with pytest.raises(SpecError, match=r"^arms are those of an ablation, and fourier-gamma is a search$"):
        find("fourier-gamma").at(arms=["best"])
    for wrong, match in (
        ({"data": "cifar10", "set": {"data.kind": "digits"}}, r"^set must leave out data\.kind, as data says it$"),
        ({"data": 3}, r"^data must be a folder of images, an \.npz file, a known set, .*, got int$"),
    ):
        with pytest.raises(SpecError, match=match):
            api.resolve("encodings", **wrong)


def test_trained_weights_are_fine_tuned_at_a_tenth_of_the_rates(tmp_path) -> None:
    folder = image_folder(tmp_path / "pets", {"train": 30})
    weights = tmp_path / "weights.pt"
    torch.save({"head.weight": torch.zeros(2, 2)}, weights)
    own = {"init.kind": "from_file", "init.path": str(weights), "init.sha256": digest_of(weights)}
    base = api.resolve("encodings", data=str(folder), set=own).study.base
    assert highest_rate(base.optimizer) == pytest.approx(base.optimizer.lr / 10)
    assert "rates times 0.1 (lr_base_size)" in fit_words(base)
    assert api.resolve("encodings", data=str(folder)).study.base.optimizer.lr_base_size is None


def test_weights_of_timm_are_those_of_the_models_name(tmp_path) -> None:
    folder = image_folder(tmp_path / "pets", {"train": 30})
    own = {"model.kind": "timm", "model.name": "vit_tiny_patch16_224", "init.kind": "from_timm", "data.image_size": 32}
    recipe = api.resolve("encodings", data=str(folder), set=own).study.base
    assert recipe.init.name == "vit_tiny_patch16_224"
    other = api.resolve("encodings", data=str(folder), set=own | {"init.name": "deit_tiny_patch16_224"}).study.base
    assert other.init.name == "deit_tiny_patch16_224"
    with pytest.raises(SpecError, match=r"init\.name"):
        api.resolve("encodings", data=str(folder), set={"init.kind": "from_timm"})
