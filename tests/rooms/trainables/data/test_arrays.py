"""Images that are arrays in a file, or digits: which image becomes which row, what guessing scores, refusals."""

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from service.analysis.scores import score_scale
from trainables.data import Digits, ImageCounts, RedGreen
from trainables.data.digits_torch import arrays as drawn_arrays
from trainables.data.digits_torch import checksum
from trainables.data.splits_torch import Reading, load
from trainables.recipe import Recipe, Run
from trainables.spec import LocusError, SpecError
from trainables.training.evaluation import compute_metric, metric_sums

SIDES, COUNT = (8, 11), 40
LABELS = np.arange(COUNT) % 4 // 3  # three quarters of class 0
RGB = np.random.default_rng(0).integers(0, 256, (COUNT, *SIDES, 3), np.uint8)


def saved(path, images=RGB, labels=LABELS, **others):
    np.savez(path, images=images, labels=labels, **others)
    return str(path)


def spec(path, **values):
    return Recipe().put({"data.kind": "arrays", "data.path": path, **values}).data


def rows(split):
    return [(bytes(image.numpy()), int(label)) for image, label in zip(split.images, split.targets, strict=True)]


def test_each_image_keeps_its_pixels_and_its_label_whatever_the_order_of_axes(tmp_path):
    first = spec(saved(tmp_path / "a.npz"))
    assert (first.size, first.image_counts, first.outputs) == ((3, 8, 8), ImageCounts(32, 4, 4), 2)
    assert (first.chance("val"), first.rarest.test) == (0.75, 0.25)
    middle = RGB[:, :, 1:9].transpose(0, 3, 1, 2)  # 11 columns, cropped to 8 at the center
    expected = sorted((bytes(image), int(label)) for image, label in zip(middle.copy(), LABELS, strict=True))
    loaded = load(first)
    assert sorted(rows(loaded.train) + rows(loaded.validation) + rows(loaded.test)) == expected
    assert [sorted(np.bincount(part.targets)) for part in (loaded.validation, loaded.test)] == [[1, 3], [1, 3]]
    assert rows(load(spec(first.path, **{"data.data_seed": 1})).test) != rows(loaded.test)

    other = spec(saved(tmp_path / "b.npz", RGB.transpose(0, 3, 1, 2), LABELS.astype(np.uint8), more=np.zeros(3)))
    assert Run(recipe=Recipe(data=other), seed=0).key == Run(recipe=Recipe(data=first), seed=0).key
    assert rows(load(other).train) == rows(loaded.train)
    gray = load(spec(saved(tmp_path / "c.npz", RGB[..., 0])))
    assert (gray.train.images[:, 0] == gray.train.images[:, 2]).all()
    swapped = spec(saved(tmp_path / "d.npz", RGB, 1 - LABELS))
    assert swapped.digest != first.digest


def test_another_path_is_another_set_and_the_same_content_the_same_one(tmp_path):
    first = spec(saved(tmp_path / "a.npz"))
    others = saved(tmp_path / "b.npz", np.repeat(RGB[:20], 2, axis=1).repeat(2, axis=2), LABELS[:20])
    assert first.put({"path": others}) == spec(others)
    recipe = Recipe(data=first).put({"data.image_size": 8, "data.path": others})
    assert recipe.data == spec(others, **{"data.image_size": 8})
    small = Recipe(data=first).put({"data.image_size": 4})
    assert small.put({"data.path": others}).data == spec(others, **{"data.image_size": 4})


def test_one_image_of_a_split_with_fewer_images_than_classes_changes_a_share_of_them(tmp_path):
    """Balanced accuracy is a mean over the classes that are there: of 50 classes twenty images hold at most twenty."""
    images = np.random.default_rng(0).integers(0, 256, (200, 8, 8), np.uint8)
    many = spec(saved(tmp_path / "many.npz", images, np.arange(200) % 50), **{"data.balanced": True})
    for name, split in (("val", load(many).validation), ("test", load(many).test)):
        outputs = torch.zeros(len(split), 50)
        outputs[:, int(split.targets[0])] = 1  # the right answer to one image
        sums = metric_sums("balanced_accuracy", outputs, split.targets)
        assert (len(split), len(split.targets.unique())) == (20, 20)
        assert many.step(name) == pytest.approx(compute_metric("balanced_accuracy", sums, split.targets)) == 1 / 20
    few = spec(saved(tmp_path / "few.npz", images, np.arange(200) % 5), **{"data.balanced": True})
    assert few.step("test") == pytest.approx(1 / 20), "four images a class"


def test_a_file_that_is_another_one_now_is_refused_and_one_that_was_decoded_is_not_needed(tmp_path):
    path = tmp_path / "set.npz"
    first = spec(saved(path))
    decoded = load(first, Reading(tmp_path / "data"))
    assert Recipe.read(Recipe(data=first).plain()).data == first
    saved(path, 255 - RGB)
    with pytest.raises(LocusError, match=f"the digest {first.digest}, got [0-9a-f]{{16}} in {path}"):
        load(first)
    path.unlink()
    with pytest.raises(LocusError, match=f"got no file in {path}"):
        load(first)
    assert first.missing(tmp_path / "elsewhere")
    assert not first.missing(tmp_path / "data")
    assert rows(load(first, Reading(tmp_path / "data")).test) == rows(decoded.test)


def test_arrays_that_could_mean_two_things_are_refused(tmp_path):
    for images, labels, sentence in (
        (RGB / 255, LABELS, r"uint8, black 0 and white 255, got float64; where white is 1, \(images \* 255\)"),
        (RGB.astype(int), LABELS, r"got int64; images.astype\('uint8'\)"),
        (RGB[:, :3], LABELS, r"says where channels are, got \(40, 3, 11, 3\): axis 1 or axis 3"),
        (RGB[..., :2], LABELS, r"images must be of shape .* got \(40, 8, 11, 2\)"),
        (RGB[:0], LABELS[:0], r"images must be of shape .* got \(0, 8, 11, 3\)"),
        (RGB, LABELS[1:], r"labels must be 40 integers, one for each image, got int64 of shape \(39,\)"),
        (RGB, LABELS / 1, r"labels must be 40 integers.* got float64"),
        (RGB, LABELS + 1, r"labels must be 0, 1 and so on, each with images, two classes or more, got 1, 2$"),
        (RGB, LABELS * 2, r"got 0, 2$"),
        (RGB, LABELS * 0, r"got 0$"),
    ):
        with pytest.raises(SpecError, match=sentence):
            spec(saved(tmp_path / "wrong.npz", images, labels))
    np.savez(tmp_path / "others.npz", x=RGB, y=LABELS)
    (tmp_path / "text.npz").write_text("no arrays")
    np.savez_compressed(tmp_path / "torn.npz", images=RGB, labels=LABELS)
    whole = bytearray((tmp_path / "torn.npz").read_bytes())
    whole[400:500] = bytes(100)
    (tmp_path / "torn.npz").write_bytes(whole)
    np.savez(tmp_path / "objects.npz", images=np.array([None]), labels=LABELS)
    for name, got in (
        ("others", "with x, y"),
        ("text", r"\("),
        ("torn", r"\("),
        ("objects", r"\("),
        ("none", r"\(no file\)"),
    ):
        with pytest.raises(SpecError, match=rf"^data.path must be an .npz file .*, got .*/{name}.npz {got}"):
            spec(str(tmp_path / f"{name}.npz"))


def test_the_installed_set_is_the_one_of_the_fingerprint():
    assert checksum() == Digits().fingerprint


def test_splits_are_apart_and_together_the_whole_set_and_images_keep_their_labels():
    bunch = load_digits()
    whole = [image.tobytes() for image in bunch.images.astype(np.uint8)]
    label_of = dict(zip(whole, bunch.target, strict=True))
    parts = drawn_arrays(Digits())
    assert sorted(image.tobytes() for images, _ in parts.values() for image in images) == sorted(whole)
    for images, labels in parts.values():
        assert [label_of[image.tobytes()] for image in images] == labels.tolist()


@pytest.mark.parametrize(
    "sizes", [(1197, 300, 300), (500, 150, 210), (10, 10, 10), (10, 300, 1477), (1187, 300, 300), (10, 10, 1767)]
)
def test_each_legal_size_can_be_drawn_with_each_class_by_its_share(sizes):
    shares = np.bincount(load_digits().target) / 1797
    for seed in range(3):
        made = drawn_arrays(Digits(train_size=sizes[0], val_size=sizes[1], test_size=sizes[2], data_seed=seed))
        labels = [made[split][1] for split in ("train", "validation", "test")]
        assert tuple(map(len, labels)) == sizes
        for part in labels if min(sizes) >= 150 else ():
            assert np.abs(np.bincount(part) - shares * len(part)).max() <= 1.5


def test_a_draw_is_repeatable_and_moves_the_images():
    first, again, other = drawn_arrays(Digits()), drawn_arrays(Digits()), drawn_arrays(Digits(data_seed=1))
    assert np.array_equal(first["test"][0], again["test"][0])
    assert not np.array_equal(first["test"][0], other["test"][0])
    assert not np.array_equal(first["validation"][0], other["validation"][0])


def test_it_is_zero_at_chance_and_one_where_all_is_right(subtests) -> None:
    for data, metric, skill in [
        (RedGreen(task="direction", skill=True), 0.5, 0.0),
        (RedGreen(task="direction", skill=True), 0.75, 0.5),
        (RedGreen(task="direction4", skill=True), 0.25, 0.0),
        (RedGreen(task="direction4", skill=True), 1.0, 1.0),
        (RedGreen(task="distance", skill=True), 0.8, 0.8),
        (Digits(skill=True), 0.0, -1 / 9),
        (Digits(), 0.3, 0.3),
    ]:
        with subtests.test(f"{data}, {metric}, {skill}"):
            assert data.score(metric, "test") == pytest.approx(skill)
            assert data.score(data.metric_chance, "test") == pytest.approx(data.chance("test"))
            assert data.score(1.0, "test") == 1.0


def test_what_a_guess_may_reach_is_the_same_in_both_units() -> None:
    """On 100 images one guess in a thousand exceeds 0.5 + 3.09 * sqrt(0.25 / 100), a skill of 0.309."""
    plain, skill = (score_scale(RedGreen(task="direction", val_size=100, skill=one), "val") for one in (False, True))
    assert plain.guessing() == pytest.approx(0.5 + 3.0902 * 0.05, abs=1e-4)
    assert skill.guessing() == pytest.approx(2 * (plain.guessing() - 0.5))
    assert plain.guessing(4) == pytest.approx(0.5 + 3.0902 * 0.025, abs=1e-4)
    assert (skill.chance, skill.low, skill.high) == (0.0, -1.0, 1.0)
    assert skill.step == pytest.approx(0.02)
