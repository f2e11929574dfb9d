"""Recipes and keys: what a key depends on and what never; starts from files; outcomes; which runs may be one model."""

import hashlib
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from tests.laws.conftest import toy
from tests.rooms.trainables.training.small_runs import small
from trainables.backbones import ViT
from trainables.data import Digits, RedGreen
from trainables.data.custom import OwnData
from trainables.encodings import PEG, Composed, Concat, Fourier, Learnable, NoEncoding, RelativeBias
from trainables.recipe import FromFile, FromTrial, Recipe, Run, TaughtByTrial
from trainables.recipe.fusing import fuse
from trainables.recipe.outcome import Completed, Diverged, Failed, Measurement, Outcome, Stopped
from trainables.spec import SpecError

PINNED = {
    "4da7f0a19ae7dd20": ({}, 0),
    "5d27b74ea1f72378": ({}, 1),
    "6d5c9783b6056378": ({"encoding.kind": "fourier", "encoding.gamma": 3}, 0),
    "729b254e741a2d9e": (
        {"encoding.kind": "peg", "encoding.kernel": 5, "model.depth": 3, "encoding.places": [0, 1]}, 2,
    ),
    "bcdcf056d118927c": ({"encoding.kind": "learnable", "trainable": "position+head"}, 0),
    "5ffe8faafe91415c": ({"encoding.kind": "relative_bias", "encoding.shared": True}, 7),
    "b6998bac1d96a04f": ({"encoding": {"kind": "composed", "parts": [{"kind": "sinusoidal"}, {"kind": "peg"}]}}, 0),
    "9df0f1c6704957fd": ({"data": {"kind": "digits", "data_seed": 4}, "model.patch_size": 2}, 0),
    "fc9ef3092a2403ac": (
        {"optimizer.lr": 0.01, "optimizer.clip_grad": None, "optimizer.precision": "float64"}, 0,
    ),
    "07c1516931978f0e": (
        {"encoding.kind": "fourier", "init": {"kind": "from_trial", "values": {"data.task": "distance"}}}, 0,
    ),
}  # fmt: skip
"""Answers are filed under these; a key that changes loses them. A default is never changed, a new kind is added."""


@pytest.mark.parametrize("key", PINNED)
def test_keys_stay_what_they_are(key) -> None:
    values, seed = PINNED[key]
    assert Run(Recipe().put(values), seed).key == key


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


def test_a_file_without_its_digest_is_told_it(tmp_path, monkeypatch):
    path = tmp_path / "w.pt"
    path.write_bytes(b"something")
    monkeypatch.chdir(tmp_path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(SpecError, match=rf"init\.sha256 must be given \({found} is that of w\.pt\), got None"):
        Recipe().put({"init": {"kind": "from_file", "path": "w.pt"}})
    with pytest.raises(SpecError, match=r"init\.sha256 must be given$"):
        Recipe().put({"init": {"kind": "from_file", "path": "v.pt"}})


def test_a_path_is_seen_from_where_it_is_given_and_is_no_part_of_what_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = FromFile("w.pt", "0" * 64)
    assert here.path == str(tmp_path / "w.pt")
    monkeypatch.chdir("/")
    assert FromFile.read(here.plain()) == here
    assert FromFile("w.pt", "0" * 64).identity() == here.identity()


@pytest.mark.parametrize("node", ["init", "teacher"])
def test_a_home_folder_is_expanded(tmp_path, monkeypatch, node):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "w.pt").write_bytes(b"something")
    base = Recipe() if node == "init" else Recipe(model=ViT(pool="distilled"), teacher=TaughtByTrial(values={}))
    said = rf"{node}\.sha256 must be given \([0-9a-f]{{64}} is that of ~/w\.pt\), got None"
    with pytest.raises(SpecError, match=said):
        base.put({node: {"kind": "from_file", "path": "~/w.pt"}})
    known = {f"{node}.kind": "from_file", f"{node}.sha256": "0" * 64}
    at_home, whole = (base.put(known | {f"{node}.path": path}) for path in ("~/w.pt", str(tmp_path / "w.pt")))
    assert at_home.files == (str(tmp_path / "w.pt"),)
    assert at_home == whole


WIDE = """
from typing import ClassVar

from trainables.data import DatasetSpec


class Wide(DatasetSpec):
    kind: str = "wide.py:Wide"
    rows: int = 16
    columns: int = 64
    image_counts: ClassVar = (20, 20, 20)
    outputs: ClassVar = 2
    metric: ClassVar = "accuracy"

    @property
    def size(self):
        return 3, self.rows, self.columns

    def arrays(self):
        raise NotImplementedError
"""


def wide(rows, columns, start, encoding=None):
    """A recipe of images with patches of 4 x 4 pixels that starts from something."""
    data = OwnData(kind="wide.py:Wide", source=WIDE, rows=4 * rows, columns=4 * columns)
    return Recipe(data=data, encoding=encoding or Learnable(), init=start)


def test_a_table_of_another_grid_with_as_many_patches_is_not_taken_for_ours():
    square, turned = ({"data.rows": 4 * rows, "data.columns": 4 * columns} for rows, columns in ((8, 8), (16, 4)))
    for start, others in ((FromTrial(square), "8 x 8"), (FromTrial(turned), "16 x 4")):
        for encoding in (Learnable(), Learnable(injection=Concat())):
            with pytest.raises(SpecError) as caught:
                wide(4, 16, start, encoding)
            must = f"init.part must be 'backbone' where 4 x 16 patches are as many as {others}, whose table fits, too"
            assert str(caught.value) == f"{must}, got 'all'"
        wide(4, 16, start.put({"part": "backbone"}))
    with pytest.raises(SpecError, match=r"^init\.part must be 'backbone'"):
        wide(4, 16, FromTrial(turned), RelativeBias())
    for encoding in (NoEncoding(), PEG()):
        wide(4, 16, FromTrial(square), encoding)
    wide(4, 16, FromTrial({"optimizer.epochs": 3}))


def test_a_measurement_is_finite_numbers(subtests) -> None:
    for value in [float("nan"), float("inf"), -float("inf"), "0.5"]:
        with subtests.test(str(value)), pytest.raises(SpecError, match=r"val/accuracy"):
            Measurement(epoch=1, values={"val/accuracy": value})


def test_every_outcome_travels_as_json() -> None:
    curve = (Measurement(epoch=1, values={"train/loss": 0.1}), Measurement(epoch=2, values={"train/loss": 1 / 3}))
    for outcome in (
        Completed(curve=curve),
        Diverged(epoch=3, curve=curve, reason="weights not finite"),
        Stopped(epoch=2, cutoff=0.9),
        Failed(reason="a full disk"),
    ):
        assert TypeAdapter(Outcome).validate_json(outcome.model_dump_json()) == outcome
    assert Completed(curve=curve).final == {"train/loss": 1 / 3}


def test_a_completed_run_has_a_curve() -> None:
    with pytest.raises(SpecError):
        Completed(curve=())


PLAIN = small()


@pytest.mark.parametrize(
    "other", [small(7), small(encoding=Fourier(hidden=6, gamma=9.0)), PLAIN], ids=["seed", "gamma", "itself"]
)
def test_seeds_and_numbers_of_an_encoding_may_differ(other):
    assert fuse(PLAIN, other)
    assert fuse(other, PLAIN)


@pytest.mark.parametrize(
    "values",
    [
        {"encoding": Learnable()},
        {"model__depth": 2},
        {"optimizer__lr": 0.02},
        {"optimizer__epochs": 5},
        {"data__train_size": 40},
        {"test_sizes": (24,)},
        {"auxiliary": {"kind": "drloc"}, "encoding": Learnable()},
    ],
    ids=lambda values: next(iter(values)),
)
def test_nothing_else_may(values):
    assert not fuse(PLAIN, small(**values))
    assert not fuse(small(**values), PLAIN)


@pytest.mark.parametrize(
    "values",
    [
        {"optimizer": {"kind": "lamb", "epochs": 4}},
        {"optimizer__ema_decay": 0.9},
        {"optimizer__precision": "float16"},
        {"encoding": toy("Spiral")},
        {"encoding": Composed(parts=(Learnable(), toy("Spiral")))},
        {"data": {"kind": "cifar10"}, "model__patch_size": 4, "augment": {"kind": "three_augment"}},
        {"init": {"kind": "from_trial", "values": {"encoding.kind": "learnable"}}},
        {"model__pool": "distilled", "teacher": {"kind": "from_trial", "values": {"encoding.kind": "peg"}}},
    ],
    ids=["lamb", "average", "float16", "own", "composed of own", "augmented", "from a parent", "taught"],
)
def test_what_is_not_computed_together_trains_alone(values):
    """With itself, too."""
    assert not fuse(small(**values), small(1, **values))
