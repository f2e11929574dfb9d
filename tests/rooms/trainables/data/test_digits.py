"""The digits: the installed set is the one the spec names, and its splits are balanced and apart."""

import re

import numpy as np
import pytest
from sklearn.datasets import load_digits

from trainables.data import Digits
from trainables.data.digits_torch import arrays, checksum
from trainables.data.splits_torch import load
from trainables.spec import SpecError


def test_the_installed_set_is_the_one_of_the_fingerprint():
    assert checksum() == Digits().fingerprint


def test_splits_are_apart_and_together_the_whole_set():
    parts = arrays(Digits())
    assert [len(parts[name][1]) for name in ("train", "validation", "test")] == [1197, 300, 300]
    pictures = np.concatenate([images for images, _ in parts.values()])
    whole = load_digits().images.astype(np.uint8)
    assert sorted(picture.tobytes() for picture in pictures) == sorted(picture.tobytes() for picture in whole)


def test_each_class_has_its_share_of_each_split():
    whole = np.bincount(load_digits().target) / 1797
    for _, labels in arrays(Digits(train_size=500, val_size=150, test_size=210)).values():
        assert np.abs(np.bincount(labels) - whole * len(labels)).max() <= 1.5


def test_images_keep_their_labels():
    bunch = load_digits()
    label_of = {
        picture.astype(np.uint8).tobytes(): label for picture, label in zip(bunch.images, bunch.target, strict=True)
    }
    for images, labels in arrays(Digits()).values():
        assert [label_of[picture.tobytes()] for picture in images] == labels.tolist()


def test_a_draw_is_repeatable_and_moves_the_images():
    first, again, other = arrays(Digits()), arrays(Digits()), arrays(Digits(data_seed=1))
    assert np.array_equal(first["test"][0], again["test"][0])
    assert not np.array_equal(first["test"][0], other["test"][0])
    assert not np.array_equal(first["validation"][0], other["validation"][0])


def test_a_batch_runs_from_black_to_white():
    import torch

    splits = load(Digits())
    pixels, labels = splits.train.batch(torch.tensor([5, 3, 8]), torch.float64)
    assert pixels.shape == (3, 1, 8, 8)
    assert pixels.dtype == torch.float64
    assert float(pixels.min()) == 0
    assert float(pixels.max()) == 1
    assert torch.equal(labels, splits.train.targets[[5, 3, 8]])


def test_every_legal_size_can_be_drawn(subtests):
    for sizes in [(10, 10, 10), (10, 300, 1477), (1187, 300, 300), (1777, 10, 10), (10, 10, 1767)]:
        with subtests.test(str(sizes)):
            train, val, test = sizes
            for seed in range(3):
                made = arrays(Digits(train_size=train, val_size=val, test_size=test, data_seed=seed))
                assert [len(made[split][1]) for split in ("train", "validation", "test")] == [train, val, test]


def test_sizes_that_cannot_be_drawn_are_refused_before_a_run(subtests):
    for values, sentence in [
        ({"train_size": 1190}, "train_size must be 1197, or at most 1187: the digits left out need an image of each "),
        ({"test_size": 5}, "test_size must be at least 10, an image of each class, got 5"),
        ({"val_size": 8}, "val_size must be at least 10, an image of each class, got 8"),
        ({"train_size": 9}, "train_size must be at least 10, an image of each class, got 9"),
    ]:
        with subtests.test(str(values)), pytest.raises(SpecError, match=f"^{re.escape(sentence)}"):
            Digits(**values)
