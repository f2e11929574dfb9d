"""The red-green images, found again in their pixels by a slow loop."""

import hashlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trainables.data import RedGreen
from trainables.data.red_green_torch import red_green

TASKS = ("direction", "direction4", "distance", "absolute")


def find(picture, channel, side):
    """The upper left pixel of the one square of a color, row before column; slowly."""
    lit = [(r, c) for r in range(picture.shape[1]) for c in range(picture.shape[2]) if picture[channel, r, c] == 255]
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


@settings(max_examples=40, deadline=None)
@given(specs(), st.sampled_from(("train", "validation", "test")))
def test_every_image_shows_what_its_target_says(spec, split):
    images, targets = red_green(spec, split)
    assert images.shape == (count(spec, split), 3, spec.image_size, spec.image_size)
    assert images.dtype == np.uint8
    assert not images[:, 2].any()
    for picture, target in zip(images, targets, strict=True):
        red, green = find(picture, 0, spec.square), find(picture, 1, spec.square)
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


@settings(max_examples=40, deadline=None)
@given(specs())
def test_classes_are_balanced_to_one(spec):
    if spec.task == "distance":
        return
    for split in ("train", "validation", "test"):
        counts = np.bincount(red_green(spec, split)[1], minlength=spec.outputs)
        assert counts.max() - counts.min() <= 1


def test_a_blind_eye_scores_exactly_one_half_on_direction():
    spec = RedGreen(train_size=10, val_size=14, test_size=22, aligned=False)
    for split in ("validation", "test"):
        images, labels = red_green(spec, split)
        assert np.array_equal(images[1::2], images[::2, :, :, ::-1])
        assert np.array_equal(labels[1::2], 1 - labels[::2])


def test_aligned_direction_shows_a_bag_of_patches_nothing():
    images, _ = red_green(RedGreen(aligned=True, train_size=50), "train")
    patches = images.reshape(50, 3, 8, 4, 8, 4).transpose(0, 2, 4, 1, 3, 5).reshape(50, 64, -1)
    bags = {b"".join(sorted(patch.tobytes() for patch in picture)) for picture in patches}
    assert len(bags) == 1


@pytest.mark.parametrize("task", TASKS)
def test_a_draw_is_repeatable_and_each_split_its_own(task):
    spec = RedGreen(task=task, train_size=200, val_size=200, test_size=200)
    train = red_green(spec, "train")
    assert all(np.array_equal(a, b) for a, b in zip(train, red_green(spec, "train"), strict=True))
    others = [red_green(spec, split)[0] for split in ("validation", "test")]
    others.append(red_green(spec.put({"data_seed": 1}), "train")[0])
    seen = {picture.tobytes() for picture in train[0]}
    for other in others:
        doubles = sum(picture.tobytes() in seen for picture in other)
        assert doubles < 10


def test_places_are_uniform_and_say_nothing_of_the_class():
    spec = RedGreen(task="direction", image_size=16, square=4, train_size=40_000)
    images, labels = red_green(spec, "train")
    corner = images[:, 0].argmax(axis=1).max(axis=1)  # the red square's row: nothing to do with left and right
    for row in range(13):
        share = labels[corner == row].mean()
        assert abs(share - 0.5) < 0.04
    middle = (images.sum(axis=1, dtype=np.int64) * np.arange(16)).sum(axis=(1, 2))  # the pair's centre
    assert abs(middle[labels == 0].mean() / middle[labels == 1].mean() - 1) < 0.01


def test_the_images_of_the_fingerprint_have_not_changed():
    spec = RedGreen(train_size=6, val_size=6, test_size=6)
    images, labels = red_green(spec, "train")
    assert spec.fingerprint == "red_green/1"
    assert hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest()[:12] == "b2eeb069b1b2"
