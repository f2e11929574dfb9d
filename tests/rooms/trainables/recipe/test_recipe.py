"""Recipes and keys: what a key depends on, and what it must never depend on."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.data import Digits, RedGreen
from trainables.recipe import FromTrial, Recipe, Run
from trainables.spec import SpecError

PINNED = {
    "default": ({}, 0),
    "seed": ({}, 1),
    "gamma": ({"encoding.kind": "fourier", "encoding.gamma": 3}, 0),
    "kinds": ({"encoding.kind": "peg", "encoding.kernel": 5, "model.depth": 3, "encoding.places": [0, 1]}, 2),
    "table": ({"encoding.kind": "learnable", "trainable": "position+head"}, 0),
    "bias": ({"encoding.kind": "relative_bias", "encoding.shared": True}, 7),
    "composed": ({"encoding": {"kind": "composed", "parts": [{"kind": "sinusoidal"}, {"kind": "peg"}]}}, 0),
    "digits": ({"data": {"kind": "digits", "data_seed": 4}, "model.patch_size": 2}, 0),
    "optimizer": ({"optimizer.lr": 0.01, "optimizer.clip_grad": None, "optimizer.precision": "float64"}, 0),
    "parent": ({"encoding.kind": "fourier", "init": {"kind": "from_trial", "values": {"data.task": "distance"}}}, 0),
}
KEYS = {
    "default": "4da7f0a19ae7dd20",
    "seed": "5d27b74ea1f72378",
    "gamma": "6d5c9783b6056378",
    "kinds": "729b254e741a2d9e",
    "table": "bcdcf056d118927c",
    "bias": "5ffe8faafe91415c",
    "composed": "b6998bac1d96a04f",
    "digits": "9df0f1c6704957fd",
    "optimizer": "fc9ef3092a2403ac",
    "parent": "07c1516931978f0e",
}
"""Answers are filed under these; a key that changes loses them. A default is never changed, a new kind is added."""


def test_keys_stay_what_they_are(subtests) -> None:
    for name in PINNED:
        with subtests.test(str(name)):
            values, seed = PINNED[name]
            assert Run(Recipe().put(values), seed).key == KEYS[name]


def test_equal_questions_have_equal_keys_however_they_are_written() -> None:
    one = Recipe().put({"encoding.kind": "fourier", "encoding.gamma": 3, "optimizer.lr": 1})
    two = Recipe().put({"optimizer.lr": 1.0, "encoding": {"kind": "fourier", "gamma": 3.0, "hidden": 32}})
    assert Run(one, 0).key == Run(two, 0).key
    start = [{"kind": "from_trial", "values": values} for values in ({"optimizer.lr": 1}, {"optimizer.lr": 1.0})]
    assert len({Run(Recipe().put({"init": one}), 0).key for one in start}) == 1


def test_a_child_is_asked_anew_where_its_parent_is() -> None:
    child = Recipe(data=Digits()).put({"model.patch_size": 2})
    starts = [{}, {"data.data_seed": 1}, {"optimizer.epochs": 3}]
    keys = {Run(child.put({"init": FromTrial(values=values)}), 0).key for values in starts}
    assert len(keys | {Run(child, 0).key}) == 4


def test_the_parents_data_are_part_of_the_childs_key(monkeypatch) -> None:
    child = Recipe(data=Digits()).put(
        {"model.patch_size": 2, "init": {"kind": "from_trial", "values": {"data.kind": "red_green"}}}
    )
    before, alone = Run(child, 0).key, Run(Recipe(data=Digits()), 0).key
    monkeypatch.setattr(RedGreen, "fingerprint", "red_green/3")
    assert Run(child, 0).key != before
    assert Run(Recipe(data=Digits()), 0).key == alone


def test_a_parent_is_put_on_the_childs_own_recipe() -> None:
    child = Recipe().put({"optimizer.epochs": 4, "init": FromTrial(values={"data.task": "absolute"})})
    (parent,) = Run(child, 5).needs()
    assert (parent.seed, parent.recipe.data.task, parent.recipe.optimizer.epochs) == (5, "absolute", 4)
    assert parent.needs() == ()
    grown = child.put({"optimizer.epochs": 9})
    assert grown.parent.optimizer.epochs == 9
    nested = {"data.task": "distance", "init": FromTrial(values={"data.task": "absolute"}).plain()}
    chain = Recipe().put({"init": FromTrial(values=nested)})
    assert [chain.data.task, chain.parent.data.task, chain.parent.parent.data.task] == [
        "direction",
        "distance",
        "absolute",
    ]


def test_a_parent_that_cannot_be_built_is_refused_at_once() -> None:
    with pytest.raises(SpecError, match=r"no field 'data\.tusk'"):
        Recipe().put({"init": {"kind": "from_trial", "values": {"data.tusk": "distance"}}})


QUERY = {"kind": "add", "places": ["query"]}


def test_mistakes_are_told_in_one_sentence(subtests) -> None:
    for values, sentence in [
        ({"model.patch_size": 5}, "model.patch_size must be a divisor of the image's sides (32, 32), got 5"),
        ({"model.num_heads": 5}, "model.embed_dim must be a multiple of num_heads (5), got 64"),
        ({"data.square": 9}, "data.square must be at most a quarter of the image (32), got 9"),
        ({"data.val_size": 7}, "data.val_size must be even: images come in mirrored pairs, got 7"),
        (
            {"data": {"kind": "digits", "train_size": 1500}},
            "data.train_size must be at most 1197 of the 1,797 digits, got 1500",
        ),
        ({"optimizer.warmup": 1.0}, "optimizer.warmup must be a share of all steps, 0 <= warmup < 1, got 1.0"),
        ({"optimizer.epochs": 2.5}, "optimizer.epochs must be a positive number of epochs, got 2.5"),
        (
            {"trainable": "position"},
            "trainable must be 'all' where nothing of the encoding (none) learns, got 'position'",
        ),
        (
            {"trainable": "position", "encoding.kind": "sinusoidal"},
            "trainable must be 'all' where nothing of the encoding (sinusoidal) learns, got 'position'",
        ),
        (
            {"trainable": "position", "encoding.kind": "fourier"},
            "trainable must be 'all' or 'position+head' where init gives no weights of the backbone, got 'position'",
        ),
        (
            {
                "trainable": "position",
                "encoding.kind": "fourier",
                "init": {"kind": "from_file", "path": "w.pt", "sha256": "0" * 64, "part": "encoding"},
            },
            "trainable must be 'all' or 'position+head' where init gives no weights of the backbone, got 'position'",
        ),
        (
            {"data.normalize": {"kind": "mean_std", "mean": [0.5], "std": [0.5]}},
            "data.normalize.mean must be 3 numbers, got [0.5]",
        ),
        (
            {"data.normalize.kind": "timm"},
            "data.normalize.kind must be auto, none or mean_std where init.kind is not from_timm, got 'timm'",
        ),
        ({"data.normalize.kind": "x"}, "data.normalize.kind must be one of auto, none, timm, mean_std, got 'x'"),
        ({"test_sizes": [0]}, "test_sizes must be positive sides in pixels, got [0]"),
        (
            {"model.mlp_ratio": 0.01},
            "model.mlp_ratio must be such that an MLP of 64 channels has a hidden one, got 0.01",
        ),
        (
            {"encoding": {"kind": "composed", "parts": [{"kind": "irpe"}, {"kind": "fourier", "injection": QUERY}]}},
            "encoding.parts must be in an order in which q and k change before they are read, "
            "got 'irpe before fourier'",
        ),
        (
            {"init": {"kind": "from_trial", "values": {"bad": 1}}},
            "init.values must give a valid recipe: no field 'bad'; known: data, model, encoding, optimizer, "
            "init, trainable, teacher, auxiliary, test_sizes, augment, loss",
        ),
        (
            {"data.task": "left"},
            "data.task must be one of direction, direction4, distance, absolute, color_shift, got 'left'",
        ),
        ({"init.kind": "from_trial"}, "init.values must be given"),
        ({"test_sizes": [48, 32]}, "test_sizes must be sides other than the training's own (32, 32), got 32"),
        ({"test_sizes": [48, 48]}, "test_sizes must be without doubles, got [48, 48]"),
        (
            {"test_sizes": [48, 30]},
            "test_sizes must be such that at 30 px model.patch_size is a divisor of the image's sides (30, 30), got 4",
        ),
        (
            {"test_sizes": [8], "encoding.kind": "peg", "encoding.padding": "valid"},
            "test_sizes must be such that at 8 px encoding.places is so few that some of the grid is left, got [-1]",
        ),
    ]:
        with subtests.test(str(values)):
            with pytest.raises(SpecError) as caught:
                Recipe().put(values)
            assert str(caught.value) == sentence


encodings = st.one_of(
    st.builds(lambda g, h: {"kind": "fourier", "gamma": g, "hidden": h}, st.floats(1e-3, 1e3), st.integers(1, 99)),
    st.builds(lambda k: {"kind": "peg", "kernel": 2 * k + 1}, st.integers(0, 4)),
    st.builds(lambda s: {"kind": "relative_bias", "shared": s}, st.booleans()),
    st.builds(lambda s: {"kind": "learnable", "std": s}, st.floats(1e-6, 10)),
    st.sampled_from([{"kind": "none"}, {"kind": "sinusoidal"}, {"kind": "learnable_sinusoidal"}]),
)
recipes = st.builds(
    lambda parts, data, depth, lr, clip: Recipe().put(
        {
            "encoding": {"kind": "composed", "parts": parts},
            "data": data,
            "model.depth": depth,
            "model.patch_size": 2,
            "optimizer.lr": lr,
            "optimizer.clip_grad": clip,
        }
    ),
    st.lists(encodings, max_size=3),
    st.sampled_from([{"kind": "digits"}, {"kind": "red_green", "task": "absolute", "image_size": 24}]),
    st.integers(1, 4),
    st.floats(1e-6, 1),
    st.none() | st.floats(0.1, 9),
)


@given(recipes, st.integers(0, 2000))
@settings(max_examples=60)
def test_a_recipe_equals_its_own_json(recipe: Recipe, seed: int) -> None:
    run = Run(recipe, seed)
    again = Run.read(json.loads(json.dumps(run.plain())))
    assert again == run
    assert again.key == run.key
    assert len(run.key) == 16


@given(recipes, recipes)
@settings(max_examples=60)
def test_keys_are_equal_where_recipes_are(one: Recipe, two: Recipe) -> None:
    assert (Run(one, 0).key == Run(two, 0).key) == (one == two)
    assert Run(one, 0).key != Run(one, 1).key


TIMM = {"init": {"kind": "from_timm", "name": "deit_tiny_patch16_224.fb_in1k"}}
HALF = {"kind": "mean_std", "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]}


def test_pixels_of_timms_weights_are_normalized_as_timm_does() -> None:
    recipe = Recipe().put(TIMM)
    assert recipe.normalize == recipe.init
    assert recipe.put({"data.normalize.kind": "none"}).normalize is None
    assert recipe.put({"data.normalize": HALF}).normalize.plain() == HALF
    assert recipe.put({"init.part": "encoding"}).normalize is None, "a backbone drawn at random"
    child = Recipe().put({"init": FromTrial(values=TIMM)})
    assert child.normalize == recipe.init, "as its parent saw them"
    assert child.put({"init.part": "encoding"}).normalize is None
    assert Recipe().normalize is None


def test_what_is_done_to_pixels_is_part_of_the_key() -> None:
    same = [TIMM, {**TIMM, "data.normalize.kind": "timm"}], [{}, {"data.normalize.kind": "none"}]
    others = [{**TIMM, "data.normalize.kind": "none"}, {**TIMM, "data.normalize": HALF}, {"data.normalize": HALF}]
    keys = [{Run(Recipe().put(values), 0).key for values in group} for group in (*same, *([one] for one in others))]
    assert [len(group) for group in keys] == [1] * 5
    assert len(set.union(*keys)) == 5
    pinned = {**TIMM, "init": {**TIMM["init"], "sha256": "0" * 64}}
    assert Run(Recipe().put(pinned), 0).key not in keys[0]
