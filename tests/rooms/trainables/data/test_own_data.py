"""A user's own data set is set, changed and identified as a listed one is. Its arrays are checked before training."""

import numpy as np
import pytest
import torch

from tests.rooms.trainables.data.own_data import SHAPES, reading
from tests.rooms.trainables.training.small_runs import folder, numbers
from trainables.backbones import ViT
from trainables.data import OwnData, RedGreen
from trainables.data.splits_torch import load as load_data
from trainables.encodings import Fourier
from trainables.own import carry
from trainables.recipe import AdamW, FromTrial, Recipe, Run
from trainables.recipe.revisions import code_of
from trainables.source import load
from trainables.spec import SpecError
from trainables.training.loop import train

SMALL = Recipe(model=ViT(embed_dim=8, num_heads=2), encoding=Fourier(hidden=6), optimizer=AdamW(epochs=2, batch_size=9))


def own(name="Shapes", source=SHAPES, **fields) -> Recipe:
    return Recipe.read({**SMALL.plain(), "data": {"kind": f"mine.py:{name}", "source": source, **fields}})


def splits(recipe: Recipe):
    return load_data(recipe.data)


def edited(*pairs: tuple[str, str]) -> str:
    text = SHAPES
    for old, new in pairs:
        assert old in text
        text = text.replace(old, new)
    return text


def test_an_instance_and_a_kind_give_one_recipe(tmp_path, monkeypatch):
    instance = load("mine.py", SHAPES).Shapes(radius=4)
    recipe = SMALL.put({"data": own(radius=4).data})
    assert Recipe(**dict(SMALL) | {"data": instance}) == recipe == own(radius=4)
    assert SMALL.put(carry({"data": instance})) == recipe
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.py").write_text(SHAPES)
    assert SMALL.put(carry({"data.kind": "mine.py:Shapes", "data.radius": 4})) == recipe
    parent = FromTrial(values={"data": instance}, part="backbone")
    assert recipe.put({"data": RedGreen(image_size=16), "init": parent}).parent.data == recipe.data


def test_its_fields_are_fields_of_the_node():
    recipe = own()
    assert isinstance(recipe.data, OwnData)
    assert (recipe.get("data.radius"), recipe.data.label, recipe.data.size) == (3, "Shapes", (1, 16, 12))
    assert recipe.put({"data.radius": 5}).data.spec.radius == 5
    assert recipe.put({"data.train_size": 20}).data.image_counts == (20, 14, 12)
    bright = recipe.put({"data.normalize": {"kind": "mean_std", "mean": [0.5], "std": [0.2]}})
    assert bright.data.normalize.mean == (0.5,)
    assert Recipe.read(bright.plain()) == bright
    with pytest.raises(SpecError, match=r"^radius must be a radius from 1 to 6 pixels, got 0$"):
        recipe.put({"data.radius": 0})
    with pytest.raises(SpecError, match=r"no field 'side'; known: kind, radius, train_size"):
        recipe.put({"data.side": 4})


def test_its_file_counts():
    code = code_of(own())
    assert "mine.py" in code.revisions
    same = edited(('"""A disk or a square', '"""A round or a square')) + "\n# a comment\n"
    assert code_of(own(source=same)) == code_of(own(radius=4)) == code
    moved = code_of(own(source=edited(("integers(5, 8, (2,", "integers(4, 8, (2,"))))
    assert moved.changed(code) == ["mine.py"]
    start = FromTrial(values={"data": own().data}, part="backbone")
    assert "mine.py" in code_of(own().put({"data": RedGreen(image_size=16), "init": start})).revisions, "a parent's"


def test_it_holds_the_arrays_that_its_class_returns():
    loaded = splits(own())
    expected = load("mine.py", SHAPES).Shapes().arrays()
    for name, (images, labels) in expected.items():
        split = getattr(loaded, name)
        assert np.array_equal(split.images.numpy(), images)
        assert np.array_equal(split.targets.numpy(), labels)
        assert (split.targets.dtype, split.max_value) == (torch.int64, 255)
    chosen, _ = loaded.train.batch(slice(0, 3), torch.float32)
    assert set(chosen.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize(("old", "new"), [
    ("np.uint8(255) * np.where", "np.uint8(16) * np.where"),
    ("[:, None], labels", "[:, None], labels.astype(np.uint8)"),
    ("[:, None], labels", "[:, None][::-1].copy()[::-1], labels[::-1].copy()[::-1]"),
])  # fmt: skip
def test_arrays_of_other_types_and_in_another_order_of_memory_are_the_same(old, new):
    """White that is not 255, labels in bytes, arrays that run backwards in memory: torch gets what it can hold."""
    white = ("metric: ClassVar", "max_value: ClassVar = 16\n    metric: ClassVar") if "(16)" in new else (old, new)
    loaded, plain = splits(own(source=edited(*{(old, new), white}))), splits(own())
    for one, other in ((loaded.train, plain.train), (loaded.test, plain.test)):
        pixels, labels = other.batch(slice(None), torch.float64)
        assert torch.equal(one.batch(slice(None), torch.float64)[0], pixels)
        assert torch.equal(one.targets, labels)


def test_it_trains_resumes_and_tests_other_sizes(tmp_path):
    run = Run(own().put({"test_sizes": [24]}), 0)
    whole = list(train(run, folder(tmp_path, "whole")))
    assert 0.0 <= whole[-1].values["test/accuracy"] <= 1.0
    assert "test/accuracy_at_24" in whole[-1].values
    steps = train(run, folder(tmp_path, "cut"))
    next(steps)
    steps.close()
    assert numbers([*train(run, tmp_path / "cut")])[-1] == numbers(whole)[-1]


RETURN = 'return dict(zip(("train", "validation", "test"), (self.draw(rng, count) for count in self.image_counts)))'
DRAWN = "return np.uint8(255) * np.where(labels[:, None, None] == 1, square, disk)[:, None], labels"
NUMBERS = "return np.uint8(255) * (np.maximum(rows, columns) <= self.radius)[:, None], places / 16"


@pytest.mark.parametrize(("name", "old", "new", "sentence"), [
    ("Shapes", RETURN, "return [self.draw(rng, 4)]", "{'train': ..., 'validation': ..., 'test': ...}, got list"),
    ("Shapes", '"validation"', '"val"', "{'train': ..., 'validation': ..., 'test': ...}, got train, val, test"),
    ("Shapes", DRAWN, "return labels", "two numpy arrays for 'train', images and targets, got ndarray"),
    ("Shapes", DRAWN, "return [1], labels",
     "two numpy arrays for 'train', images and targets, got tuple of list, ndarray"),
    ("Shapes", "np.uint8(255) *", "np.float32(255) *", "images of 'train' of type uint8, got float32"),
    ("Shapes", "disk)[:, None]", "disk)",
     r"images of 'train' of shape (48, 1, 16, 12), as image_counts and size declare, got (48, 16, 12)"),
    ("Shapes", "draw(rng, count) for", "draw(rng, 48) for",
     r"images of 'validation' of shape (14, 1, 16, 12), as image_counts and size declare, got (48, 1, 16, 12)"),
    ("Shapes", "metric: ClassVar", "max_value: ClassVar = 16\n    metric: ClassVar",
     "images of 'train' with values up to max_value (16), got 255"),
    ("Shapes", "[:, None], labels", "[:, None], labels / 1",
     "targets of 'train' of integers, as metric is 'accuracy', got float64"),
    ("Shapes", "[:, None], labels", "[:, None], labels[:5]",
     "targets of 'train' of shape (48,), as image_counts and outputs declare, got (5,)"),
    ("Shapes", "[:, None], labels", "[:, None], labels + 1", "targets of 'train' from 0 to 1, got 1 to 2"),
    ("Shapes", "[:, None], labels", "[:, None], labels - 1", "targets of 'train' from 0 to 1, got -1 to 0"),
    ("Places", NUMBERS, NUMBERS.replace(" / 16", ""), "targets of 'train' of floats, as metric is 'r2', got int64"),
    ("Places", NUMBERS, NUMBERS.replace("places / 16", "places[:, 0] / 16"),
     "targets of 'train' of shape (48, 2), as image_counts and outputs declare, got (48,)"),
    ("Places", NUMBERS, NUMBERS.replace("places / 16", "places * np.nan"),
     "targets of 'train' that are finite, got NaN or infinity"),
    ("Places", NUMBERS, NUMBERS.replace("places / 16", "places * 0.0"),
     "targets of 'validation' that differ, because R^2 of equal numbers is not defined, got equal ones"),
    ("Shapes", "default_rng(0)", "default_rng()",
     "the same arrays each time: draw them from a generator with a seed of your own, got others the second time"),
])  # fmt: skip
def test_wrong_arrays_are_refused_before_training(name, old, new, sentence, tmp_path):
    run = Run(own(name, edited((old, new))), 0)
    with pytest.raises(SpecError) as caught:
        next(train(run, tmp_path))
    assert str(caught.value) == f"{name}.arrays in mine.py must return {sentence}"


def test_a_wrong_class_is_refused_when_the_recipe_is_made(subtests):
    for old, new, sentence in [
    ("def arrays", "def other", "Shapes in mine.py must have a method arrays(self), got none"),
    ('    metric: ClassVar = "accuracy"\n', "",
     "Shapes in mine.py must declare metric, one of accuracy, balanced_accuracy, r2, got none"),
    ('"accuracy"', '"loss"', "Shapes.metric in mine.py must be one of accuracy, balanced_accuracy, r2, got 'loss'"),
    ("outputs: ClassVar = 2", "outputs: ClassVar = 1",
     "Shapes.outputs in mine.py must be a whole number from 2 on, got 1"),
    ("(1, 16, 12)", "(16, 12)",
     "Shapes.size in mine.py must be the channels, rows and columns of an image, got (16, 12)"),
    ("val_size: int = 14", "val_size: int = 0",
     "Shapes.image_counts in mine.py must be three positive numbers of images, got "
     "ImageCounts(train=48, validation=0, test=12)"),
    ("val_size: int = 14", "number: int = 14",
     "Shapes in mine.py must declare image_counts, three positive numbers of images, got none "
     "('Shapes' object has no attribute 'val_size')"),
    ("metric: ClassVar", "max_value: ClassVar = 256\n    metric: ClassVar",
     "Shapes.max_value in mine.py must be from 1 to 255, got 256"),
    ("metric: ClassVar", "chance: ClassVar = 0.9\n    metric: ClassVar",
     "Shapes in mine.py must declare what guessing scores as metric_chance, got chance (which locus computes from it)"),
    ("metric: ClassVar", 'metric_chance: ClassVar = "half"\n    metric: ClassVar',
     "Shapes.metric_chance in mine.py must be a number, got 'half'"),
    ("radius: int", "source: int = 1\n    radius: int",
     "Shapes in mine.py must have no field 'source', which is the text of the file"),
    ("class Shapes(DatasetSpec)", "class Other(DatasetSpec)",
     "data.kind must name a DatasetSpec in mine.py, got 'Shapes'"),
    ("class Shapes(DatasetSpec)", "class Shapes", "data.kind must name a DatasetSpec in mine.py, got 'Shapes'"),
    ('"mine.py:Shapes"', '"mine.py:Disks"', "Shapes.kind in mine.py must be 'mine.py:Shapes', got 'mine.py:Disks'"),
]:  # fmt: skip
        with subtests.test(f"{old}, {new}"):
            text = edited((old, new)).partition("class Places")[0]
            with pytest.raises(SpecError) as caught:
                own(source=text)
            assert str(caught.value) == sentence


def test_an_encoding_is_no_data_and_data_are_no_encoding(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shapes.py").write_text(SHAPES.replace("mine.py", "shapes.py"))
    with pytest.raises(SpecError, match=r"^encoding\.kind must name an EncodingSpec in shapes\.py, got 'Shapes'$"):
        Recipe().put(carry({"encoding.kind": "shapes.py:Shapes"}))
    with pytest.raises(SpecError, match=r"^data\.kind must name a file of the working folder, got 'absent\.py:A'$"):
        carry({"data.kind": "absent.py:A"})
    with pytest.raises(SpecError, match=r"^data\.source must be given$"):
        Recipe().put({"data": {"kind": "mine.py:Shapes"}})
    with pytest.raises(SpecError, match=r"^data\.kind must be one of red_green, .*, or file\.py:Class, got 'mine'$"):
        Recipe().put({"data.kind": "mine"})


def test_uneven_classes_must_be_declared_as_chance(subtests):
    """Three of four images of one class: a model that always names it scores 0.75, which is not above chance."""
    uneven = ("np.arange(count) % 2", "(np.arange(count) % 4 == 0).astype(int)")
    larger = ("val_size: int = 14", "val_size: int = 400")
    with pytest.raises(SpecError) as caught:
        splits(own(source=edited(uneven, larger)))
    assert str(caught.value) == (
        "Shapes.arrays in mine.py must return targets of 'validation' of which at most 0.5 are of one class, as "
        "guessing scores that (metric_chance), got 0.75: declare metric_chance = 0.75, or the metric balanced_accuracy"
    )
    declared = ("outputs: ClassVar", "metric_chance: ClassVar = 0.75\n    outputs: ClassVar")
    for mend, chance in ((declared, 0.75), (('"accuracy"', '"balanced_accuracy"'), 0.5)):
        with subtests.test(mend[1]):
            data = own(source=edited(uneven, larger, mend)).data
            assert len(load_data(data).validation) == 400
            assert (data.chance("val"), data.chance("test")) == (chance, chance)


def test_a_fingerprint_is_read_once_for_all_recipes_that_share_the_images(tmp_path):
    """Else arms that are planned before and after a change of files would be compared with each other."""
    base = reading(tmp_path / "images")
    before = Run(base, 0).key
    (tmp_path / "images").write_text("2")
    arm = base.put({"encoding.kind": "sinusoidal"})
    assert arm.data.fingerprint == base.data.fingerprint
    assert Run(base, 0).key == before
    again = Recipe.read(base.plain())
    assert again == base
    assert again.data.fingerprint != base.data.fingerprint
    assert "fingerprint" not in base.plain()["data"]


@pytest.mark.parametrize("moment", ["before", "between"])
def test_files_that_changed_since_the_study_was_planned_are_refused(moment, tmp_path, monkeypatch):
    file = tmp_path / "images"
    data = reading(file).data
    if moment == "before":
        file.write_text("2")
    else:
        of, calls = type(data.spec).arrays, []

        def arrays(self):
            calls.append(self)
            images = of(self)
            file.write_text(str(len(calls)))  # the same as before at first
            return images

        monkeypatch.setattr(type(data.spec), "arrays", arrays)
    with pytest.raises(SpecError) as caught:
        load_data(data)
    assert str(caught.value) == (
        "Read.fingerprint in read.py must be '6b86b273', as when the study was planned, got 'd4735e3a'; "
        "run the study again"
    )


def test_a_file_of_images_that_is_gone_is_said(tmp_path):
    plain = reading(tmp_path / "images").plain()
    (tmp_path / "images").unlink()
    with pytest.raises(SpecError, match=r"Read.fingerprint in read.py must be a string, got .*No such file"):
        Recipe.read(plain)


def test_numbers_are_regressed(tmp_path):
    run = Run(own("Places").put({"optimizer.precision": "float64"}), 0)
    assert load_data(run.recipe.data).train.targets.dtype == torch.float64
    assert "test/r2" in list(train(run, tmp_path))[-1].values


def test_a_key_names_its_fields_and_not_its_text():
    for added in ("# a comment\n", "SPARE = 1\n"):
        assert Run(own(source=SHAPES + added), 0).key == Run(own(), 0).key
    keys = {
        Run(recipe, 0).key
        for recipe in (own(), own(radius=4), own("Places"), own().put({"data.normalize.kind": "none"}))
    }
    assert len(keys) == 3, "`normalize` is what it resolves to"
    second = edited(("    size: ClassVar", '    fingerprint: ClassVar = "v2"\n    size: ClassVar'))
    assert Run(own(source=second), 0).key != Run(own(), 0).key
