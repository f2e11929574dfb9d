"""The red-green images, found again in their pixels by a slow loop."""

import hashlib
import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.data import RedGreen
from trainables.data.red_green_torch import arrays, further_test
from trainables.spec import SpecError

TASKS = ("direction", "direction4", "distance", "absolute", "color_shift")
RED, GREEN, BLUE, YELLOW = (255, 0, 0), (0, 255, 0), (0, 0, 255), (255, 255, 0)


def find(picture, color, side):
    """The upper left pixel of the one square of a color, row before column; slowly."""
    rows, columns = range(picture.shape[1]), range(picture.shape[2])
    lit = [(r, c) for r in rows for c in columns if tuple(picture[:, r, c]) == color]
    top, left = min(r for r, _ in lit), min(c for _, c in lit)
    assert sorted(lit) == [(top + r, left + c) for r in range(side) for c in range(side)]
    return top, left


def count(spec, split):
    return {"train": spec.train_size, "validation": spec.val_size, "test": spec.test_size}[split]


@st.composite
def specs(draw):
    square = draw(st.integers(1, 4))
    aligned = draw(st.booleans())
    image = square * draw(st.integers(4, 6)) + (0 if aligned else draw(st.integers(0, square)))
    counts = {name: 2 * draw(st.integers(3, 9)) for name in ("train_size", "val_size", "test_size")}
    counts["train_size"] += draw(st.integers(0, 1))
    task = draw(st.sampled_from(TASKS))
    return RedGreen(
        task=task, image_size=image, square=square, aligned=aligned, data_seed=draw(st.integers(0, 9)), **counts
    )


@settings(max_examples=40)
@given(specs(), st.sampled_from(("train", "validation", "test")))
def test_every_image_shows_what_its_target_says(spec, split):
    images, targets = arrays(spec)[split]
    assert images.shape == (count(spec, split), 3, spec.image_size, spec.image_size)
    assert images.dtype == np.uint8
    colors = (BLUE, YELLOW) if spec.task == "color_shift" and split == "test" else (RED, GREEN)
    for picture, target in zip(images, targets, strict=True):
        assert {tuple(pixel) for pixel in picture.reshape(3, -1).T} == {(0, 0, 0), *colors}
        red, green = (find(picture, color, spec.square) for color in colors)
        down, right = red[0] - green[0], red[1] - green[1]
        assert abs(down) >= spec.square or abs(right) >= spec.square
        if spec.aligned:
            assert not any(place % spec.square for place in (*red, *green))
        if spec.task == "direction":
            assert right != 0
            assert target == (1 if right < 0 else 0)
        elif spec.task == "direction4":
            assert right != 0
            assert down != 0
            assert target == 2 * (down < 0) + (right < 0)
        elif spec.task == "distance":
            assert target == pytest.approx((right / spec.image_size, down / spec.image_size))
        else:
            half = spec.image_size / 2
            upper = all(place[0] + spec.square <= half for place in (red, green))
            lower = all(place[0] >= half for place in (red, green))
            assert (upper, lower) == ((True, False) if target == 0 else (False, True))


@settings(max_examples=40)
@given(specs())
def test_classes_are_balanced_to_one(spec):
    if spec.task == "distance":
        return
    for split in ("train", "validation", "test"):
        counts = np.bincount(arrays(spec)[split][1], minlength=spec.outputs)
        assert counts.max() - counts.min() <= 1


def test_a_blind_eye_scores_exactly_one_half_on_direction():
    spec = RedGreen(train_size=10, val_size=14, test_size=22, aligned=False)
    for split in ("validation", "test"):
        images, labels = arrays(spec)[split]
        assert np.array_equal(images[1::2], images[::2, :, :, ::-1])
        assert np.array_equal(labels[1::2], 1 - labels[::2])


def test_aligned_direction_shows_a_bag_of_patches_nothing():
    images, _ = arrays(RedGreen(aligned=True, train_size=50))["train"]
    patches = images.reshape(50, 3, 8, 4, 8, 4).transpose(0, 2, 4, 1, 3, 5).reshape(50, 64, -1)
    bags = {b"".join(sorted(patch.tobytes() for patch in picture)) for picture in patches}
    assert len(bags) == 1


def test_a_draw_is_repeatable_and_each_split_its_own(subtests):
    for task in TASKS:
        with subtests.test(str(task)):
            spec = RedGreen(task=task, train_size=200, val_size=200, test_size=200)
            train = arrays(spec)["train"]
            assert all(np.array_equal(a, b) for a, b in zip(train, arrays(spec)["train"], strict=True))
            seen = {picture.tobytes() for picture in train[0]}
            other = arrays(spec.put({"data_seed": 1}))["train"][0]
            assert sum(picture.tobytes() in seen for picture in other) < 10
            draws = [arrays(spec)["test"], *(further_test(spec, number) for number in (1, 2))]
            assert all(np.array_equal(a, b) for a, b in zip(draws[1], further_test(spec, 1), strict=True))
            for one, two in itertools.combinations(draws, 2):
                assert sum(np.array_equal(a, b) for a, b in zip(one[0], two[0], strict=True)) < 10


SCARCE = {
    "direction": (30, 62, 66), "direction4": (36, 52, 56), "distance": (80, 79, 81), "absolute": (40, 36, 36),
    "color_shift": (40, 36, 36),
}  # fmt: skip
"""Splits that use up every image of a grid of 4 x 4, if the images of train are all different."""


def test_no_image_of_validation_or_test_is_in_another_split(subtests):
    for task in TASKS:
        for aligned in [True, False]:
            with subtests.test(f"{task}, {aligned}"):
                train, val, test = SCARCE[task]
                spec = RedGreen(
                    task=task, image_size=8, square=2, aligned=aligned, train_size=train, val_size=val, test_size=test
                )
                if aligned:
                    assert sum(map(spec._draws, ("train_size", "val_size", "test_size"))) <= spec.distinct
                images = {split: [picture.tobytes() for picture in made] for split, (made, _) in arrays(spec).items()}
                for split in ("validation", "test"):
                    assert len(images[split]) == len(set(images[split])) == count(spec, split)
                    others = {picture for other in images if other != split for picture in images[other]}
                    assert not others & set(images[split])
                    if task == "direction":
                        mirrored = {picture[..., ::-1].tobytes() for picture in arrays(spec)[split][0]}
                        assert not others & mirrored
                further, targets = further_test(spec, 1)
                drawn = {picture.tobytes() for picture in further}
                assert len(drawn) == test
                assert not drawn & {*images["train"], *images["validation"]}
                assert sorted(map(str, targets)) == sorted(map(str, arrays(spec)["test"][1])) or task == "distance"


def test_different_images_are_counted(subtests):
    """By a slow loop over all places of both squares."""
    for task in TASKS:
        for image, square, aligned in [(8, 2, True), (8, 2, False), (9, 2, False), (9, 3, True)]:
            with subtests.test(f"{task}, {image}, {square}, {aligned}"):
                if image < 4 * square:
                    image += square
                spec = RedGreen(
                    task=task, image_size=image, square=square, aligned=aligned, train_size=2, val_size=2, test_size=2
                )
                places = range(0, image - square + 1, square if aligned else 1)
                total = 0
                for green, red in itertools.product(itertools.product(places, places), repeat=2):
                    down, right = red[0] - green[0], red[1] - green[1]
                    legal = abs(down) >= square or abs(right) >= square
                    legal &= right != 0 or not task.startswith("direction")
                    legal &= down != 0 or task != "direction4"
                    if task in ("absolute", "color_shift"):
                        upper = all(place[0] + square <= image / 2 for place in (green, red))
                        legal &= upper or all(place[0] >= image / 2 for place in (green, red))
                    total += legal
                assert spec.distinct * spec.classes == total


def test_too_few_images_are_refused_before_any_is_drawn():
    sentence = r"train_size must be such that the splits share no image \(a class has 1,792 different ones, "
    with pytest.raises(SpecError, match=f"^{sentence}the splits need 6,000\\), got 5000$"):
        RedGreen(aligned=True)
    assert RedGreen(aligned=True, train_size=792).distinct == 792 + 500 + 500
    with pytest.raises(SpecError, match=f"^{sentence}the splits need 1,793\\), got 793$"):
        RedGreen(aligned=True, train_size=793)


def test_r2_needs_images_whose_offsets_differ():
    sentence = r"^data\.(val|test)_size must be so large that the offsets of its images differ, got 2$"
    refused = 0
    for seed in range(40):
        spec = RedGreen(task="distance", image_size=8, square=2, train_size=2, val_size=2, test_size=2, data_seed=seed)
        try:
            made = arrays(spec)
        except SpecError as error:
            assert re.match(sentence, str(error))  # noqa: PT017
            refused += 1
        else:
            assert all(np.ptp(made[split][1], axis=0).all() for split in ("validation", "test"))
    assert 0 < refused < 40


def test_a_shift_of_color_moves_no_square():
    """The test images of `color_shift` are those of `absolute` in other colors; their places are in no other split."""
    sizes = {"train_size": 200, "val_size": 40, "test_size": 60}
    plain, shifted = (arrays(RedGreen(task=task, **sizes)) for task in ("absolute", "color_shift"))
    for split in ("train", "validation"):
        assert all(np.array_equal(*pair) for pair in zip(plain[split], shifted[split], strict=True))
    (images, labels), (others, same) = plain["test"], shifted["test"]
    assert np.array_equal(labels, same)
    assert np.array_equal(others[:, 2], images[:, 0]), "red becomes blue"
    assert np.array_equal(others[:, 0], images[:, 1]), "green becomes yellow"
    assert np.array_equal(others[:, 1], images[:, 1])


def test_places_are_uniform_and_say_nothing_of_the_class():
    spec = RedGreen(task="direction", image_size=24, square=4, train_size=40_000)
    images, labels = arrays(spec)["train"]
    corner = images[:, 0].argmax(axis=1).max(axis=1)  # the red square's row: nothing to do with left and right
    for row in range(21):
        share = labels[corner == row].mean()
        assert abs(share - 0.5) < 0.04
    middle = (images.sum(axis=1, dtype=np.int64) * np.arange(24)).sum(axis=(1, 2))  # the pair's centre
    assert abs(middle[labels == 0].mean() / middle[labels == 1].mean() - 1) < 0.01


def test_the_images_of_the_fingerprint_have_not_changed():
    spec = RedGreen(train_size=6, val_size=6, test_size=6)
    images, labels = arrays(spec)["train"]
    assert spec.fingerprint == "red_green/2"
    assert hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()[:12] == "b2eeb069b1b2"
