"""Augmentation: what is drawn depends on the seed, the epoch and the image alone, and labels follow the pixels."""

import random

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.ndimage import gaussian_filter
from timm.data.auto_augment import rand_augment_transform
from timm.data.mixup import Mixup
from torch.nn.functional import one_hot

from trainables.data import Cifar10, Digits, RedGreen
from trainables.data.augment import DeiT, NoAugment, Standard, ThreeAugment
from trainables.data.augment_torch import Augmentation
from trainables.data.deit_torch import Changes
from trainables.recipe import Recipe, Run
from trainables.rng_torch import seeded, stream_seed
from trainables.spec import SpecError

CLASSES = 5


def augmentation(spec, seed=0, count=40):
    return Augmentation(spec, seed, count, CLASSES)


def pictures(count, side=8):
    """Images whose pixels all differ."""
    return torch.arange(count * 3 * side * side).reshape(count, 3, side, side) / (count * 3 * side * side) + 0.001


def targets(count):
    return torch.arange(count) % CLASSES


def test_what_would_change_labels_is_refused(subtests):
    for data in [RedGreen(), Digits()]:
        for kind in ["standard", "deit", "three_augment"]:
            with subtests.test(f"{data}, {kind}"):
                must = f"^augment.kind must be none for {data.kind} images, whose labels would change, got '{kind}'$"
                with pytest.raises(SpecError, match=must):
                    Recipe(data=data).put({"augment.kind": kind})


def test_without_augmentation_the_key_is_as_it_was():
    recipe = Recipe(data=Cifar10())
    assert "augment" not in recipe.identity()
    keys = {Run(recipe.put({"augment.kind": kind}), 0).key for kind in ("none", "standard", "deit")}
    assert len(keys) == 3
    assert Run(recipe, 0).key in keys


def test_standard_is_a_shift_and_a_flip_of_each_image():
    spec, images = Standard(border=2), pictures(40)
    made, labels = augmentation(spec).batch(images, targets(40), torch.arange(40), epoch=3, step=0)
    assert torch.equal(labels, targets(40))
    bordered = torch.zeros(40, 3, 12, 12)
    bordered[:, :, 2:10, 2:10] = images
    draws = set()
    for number in range(40):
        fits = [
            (row, column, flip) for row in range(5) for column in range(5) for flip in (False, True)
            if torch.equal(made[number], turned(bordered[number, :, row : row + 8, column : column + 8], flip))
        ]  # fmt: skip
        assert len(fits) == 1
        draws.add(fits[0])
    assert len(draws) > 20
    assert {flip for _, _, flip in draws} == {False, True}


def test_every_shift_is_as_likely_as_every_other():
    """A pixel that knows its place tells which one came to the middle."""
    images, numbers = torch.arange(9.0).reshape(1, 1, 3, 3).expand(9000, 3, 3, 3), torch.arange(9000)
    made, _ = augmentation(Standard(border=1, flip=0.0), count=9000).batch(images, targets(9000), numbers, 1, 0)
    counts = torch.bincount(made[:, 0, 1, 1].long(), minlength=9)
    assert (counts - 1000).abs().max() < 150, "5 standard deviations"


def turned(image, flip):
    return image.flip(2) if flip else image


def test_standard_does_not_depend_on_the_batch():
    images, numbers = pictures(40), torch.randperm(40)
    one = augmentation(Standard())
    whole, _ = one.batch(images[numbers], targets(40), numbers, epoch=2, step=9)
    for part in (torch.arange(0, 40, 3), torch.tensor([7])):
        mine, _ = augmentation(Standard()).batch(images[numbers[part]], targets(40), numbers[part], epoch=2, step=1)
        assert torch.equal(mine, whole[part])
    assert not torch.equal(one.batch(images[numbers], targets(40), numbers, epoch=3, step=9)[0], whole)
    assert not torch.equal(augmentation(Standard(), 1).batch(images[numbers], targets(40), numbers, 2, 9)[0], whole)


def test_no_border_and_no_flip_change_nothing():
    images = pictures(6)
    assert torch.equal(
        augmentation(Standard(border=0, flip=0.0)).batch(images, targets(6), torch.arange(6), 1, 0)[0], images
    )
    flipped = augmentation(Standard(border=0, flip=1.0)).batch(images, targets(6), torch.arange(6), 1, 0)[0]
    assert torch.equal(flipped, images.flip(3))


def test_mixing_is_timms(subtests):
    for spec in [DeiT(), DeiT(mixup=0), DeiT(cutmix=0), DeiT(smoothing=0)]:
        with subtests.test(str(spec)):
            images, labels = pictures(8), targets(8)
            for step in range(6):
                made, soft = augmentation(spec).batch(images.clone(), labels, torch.arange(8), epoch=1, step=step)
                timms = Mixup(spec.mixup, spec.cutmix, label_smoothing=spec.smoothing, num_classes=CLASSES)
                with seeded(stream_seed(0, "mixup", step)):
                    expected, expected_soft = timms(images.clone(), labels)
                assert torch.equal(made, expected)
                assert torch.equal(soft, expected_soft)
                assert torch.allclose(soft.sum(1), torch.ones(8))


def test_workers_mix_the_same_images(subtests):
    """Each worker's share of a batch, mixed by itself, is its share of the batch that was mixed as a whole."""
    for count in [1, 2, 5, 8, 9]:
        for world in [2, 3]:
            with subtests.test(f"{count}, {world}"):
                from trainables.training.distributed import DataParallel

                images, labels, made = pictures(count), targets(count), augmentation(DeiT())
                for step in range(5):
                    whole = made.batch(images.clone(), labels, torch.arange(count), 1, step)
                    for rank in range(world):
                        team = DataParallel(rank, world)
                        if team.idle(count):
                            continue
                        mine = made.batch(
                            team.share(images).clone(), team.share(labels), team.share(torch.arange(count)), 1, step
                        )
                        for part, of_all in zip(mine, whole, strict=True):
                            assert torch.equal(part, team.share(of_all))


def test_every_row_is_one_workers():
    from trainables.training.distributed import DataParallel

    for count in range(1, 12):
        for world in (1, 2, 3, 5):
            teams = [DataParallel(rank, world) for rank in range(world)]
            rows = torch.cat([team.share(torch.arange(count)) for team in teams if not team.idle(count)])
            assert sorted(rows.tolist()) == [*range(count)]
            assert all(len(team.share(torch.arange(count))) > 0 for team in teams)


def test_an_odd_batch_mixes_its_middle_with_itself():
    images, labels = pictures(5), targets(5)
    for step in range(8):
        made, soft = augmentation(DeiT(smoothing=0.0)).batch(images.clone(), labels, torch.arange(5), 1, step)
        assert torch.allclose(made[2], images[2], atol=1e-6)
        assert torch.allclose(soft[2], one_hot(labels, CLASSES)[2].float())


def test_smoothing_alone_keeps_pixels():
    images = pictures(6)
    made, soft = augmentation(DeiT(mixup=0, cutmix=0, smoothing=0.2)).batch(images, targets(6), torch.arange(6), 1, 0)
    assert torch.equal(made, images)
    assert torch.allclose(soft, one_hot(targets(6), CLASSES) * 0.8 + 0.2 / CLASSES)


def photograph(side=40):
    rows, columns = np.mgrid[:side, :side]
    return Image.fromarray(np.stack([rows * 6, columns * 6, rows + columns], 2).astype(np.uint8))


def of_one(made, drawn, side):
    """The photograph, as it is changed alone."""
    part = torch.from_numpy(made.change(photograph(), drawn, side))
    return made.change.batch(part[None], [drawn])[0].numpy()


def test_one_image_depends_on_seed_epoch_image_and_copy_alone():
    for spec in (DeiT(), ThreeAugment()):
        made = augmentation(spec)
        first = made.change(photograph(), (1, 7, 0), 16)
        assert first.shape == (3, 16, 16)
        assert first.dtype == np.uint8
        random.seed(5), np.random.seed(6), torch.manual_seed(7)
        assert np.array_equal(of_one(augmentation(spec), (1, 7, 0), 16), of_one(made, (1, 7, 0), 16))
        first = of_one(made, (1, 7, 0), 16)
        others = [of_one(made, drawn, 16) for drawn in ((2, 7, 0), (1, 8, 0), (1, 7, 1))]
        others.append(of_one(augmentation(spec, seed=1), (1, 7, 0), 16))
        assert not any(np.array_equal(first, other) for other in others)


def test_the_global_generators_are_left_as_they_were():
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    expected = random.random(), np.random.rand(), torch.rand(1)
    random.seed(1), np.random.seed(2), torch.manual_seed(3)
    for made in (augmentation(DeiT()), augmentation(ThreeAugment())):
        made.change(photograph(), (1, 7, 0), 16)
        Changes(DeiT(), 0).batch(torch.zeros(2, 3, 16, 16, dtype=torch.uint8), [(1, 7, 0), (1, 8, 0)])
        made.batch(pictures(4), targets(4), torch.arange(4), 1, 0)
    assert (random.random(), np.random.rand(), torch.rand(1)) == expected


WHOLE = {"scale": 1.0, "flip": 0.0, "color_jitter": 0.0}


def test_one_of_three_changes_comes_to_each_image():
    """Gray and solarized by their formulas, blurred by scipy."""
    three = augmentation(ThreeAugment(**WHOLE))
    counts = {"gray": 0, "solarized": 0, "blurred": 0}
    for number in range(60):
        before = three.change(photograph(), (1, number, 0), 32).astype(int)
        after = of_one(three, (1, number, 0), 32).astype(int)
        gray = (before * np.array([19595, 38470, 7471])[:, None, None]).sum(0) + 2**15 >> 16
        solarized = np.where(before < 128, before, 255 - before)
        smooth = (gaussian_filter(before.astype(float), (0, sigma, sigma)) for sigma in np.linspace(0.1, 2.0, 20))
        blurred = min(np.abs(one - after)[:, 6:-6, 6:-6].max() for one in smooth)
        if np.array_equal(after, np.broadcast_to(gray, after.shape)):
            counts["gray"] += 1
        elif np.array_equal(after, solarized) and not np.array_equal(before, solarized):
            counts["solarized"] += 1
        else:
            assert blurred <= 1, number
            counts["blurred"] += 1
    assert all(10 <= count <= 30 for count in counts.values()), counts


def test_color_jitter_changes_the_brightness_by_its_share_at_most():
    """A uniform dark gray image shows brightness alone: contrast, saturation and the three changes leave it."""
    drawn = [(1, number, 0) for number in range(200)]
    plain = torch.full((200, 3, 8, 8), 100, dtype=torch.uint8)
    for spec in (ThreeAugment(), DeiT(rand=None, erase=0.0, color_jitter=0.3)):
        values = Changes(spec, 0).batch(plain, drawn).numpy()
        assert all(image.min() == image.max() for image in values)
        darkest = np.array([image.min() for image in values])
        assert darkest.min() in range(70, 74)
        assert darkest.max() in range(127, 131)
        assert 97 < darkest.mean() < 103
    with pytest.raises(SpecError, match=r"^color_jitter must be 0 where rand is given, .*, got 0\.3$"):
        DeiT(color_jitter=0.3)


def test_repeats_keep_the_number_of_images():
    order, copies = augmentation(DeiT(repeats=3)).repeated(torch.tensor([4, 2, 9, 1]))
    assert order.tolist() == [4, 4, 4, 2]
    assert copies.tolist() == [0, 1, 2, 0]
    assert augmentation(NoAugment()).repeated(torch.tensor([4, 2]))[0].tolist() == [4, 2]


@pytest.mark.parametrize("spec", [DeiT(), DeiT(mixup=0, cutmix=0)], ids=["mixed", "smoothed"])
def test_soft_targets_have_the_type_of_the_images(spec):
    images, soft = augmentation(spec).batch(pictures(4).double(), targets(4), torch.arange(4), 1, 0)
    assert images.dtype == soft.dtype == torch.float64
    assert soft.shape == (4, CLASSES)


def test_a_rand_augment_is_one_that_timm_understands(subtests):
    """A part that timm would ignore, or stumble over in the first batch, is refused with the recipe."""
    for text in ("rand", "rand-m9-mstd0.5-inc1", "rand-m6-n3-p0.7-mmax20-t3aw", "rand-mstd1-tweights"):
        with subtests.test(text):
            assert DeiT(rand=text).rand == text
            rand_augment_transform(text)
    for text in ("", "randx", "rand-m9.5", "rand-q3", "rand-mstdinf", "rand-p1.5", "rand-tfoo", "augmix-m5"):
        with subtests.test(text), pytest.raises(SpecError, match=r"^rand must be timm's string of a RandAugment"):
            DeiT(rand=text)
