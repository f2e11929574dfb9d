"""Augmentation: draws depend on seed, epoch and image alone, labels follow the pixels, and changes are timm's."""

import math
import random

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from scipy.ndimage import gaussian_filter
from timm.data import auto_augment
from timm.data.auto_augment import rand_augment_transform
from timm.data.mixup import Mixup
from timm.data.random_erasing import RandomErasing
from timm.data.transforms import RandomResizedCropAndInterpolation
from torch.nn.functional import one_hot

from trainables.data import Cifar10
from trainables.data.augment import DeiT, NoAugment, Standard, ThreeAugment
from trainables.data.augment_torch import Augmentation
from trainables.data.deit_torch import CHANGES, FILL, Changes, changed, random_part
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


def photograph(side=40):
    rows, columns = np.mgrid[:side, :side]
    return Image.fromarray(np.stack([rows * 6, columns * 6, rows + columns], 2).astype(np.uint8))


def of_one(made, drawn, side):
    """The photograph, as it is changed alone."""
    part = torch.from_numpy(made.change(photograph(), drawn, side))
    return made.change.batch(part[None], [drawn])[0].numpy()


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


def test_repeats_keep_the_number_of_images():
    order, copies = augmentation(DeiT(repeats=3)).repeated(torch.tensor([4, 2, 9, 1]))
    assert order.tolist() == [4, 4, 4, 2]
    assert copies.tolist() == [0, 1, 2, 0]
    assert augmentation(NoAugment()).repeated(torch.tensor([4, 2]))[0].tolist() == [4, 2]


def test_a_rand_augment_is_one_that_timm_understands(subtests):
    """A part that timm would ignore, or stumble over in the first batch, is refused with the recipe."""
    for text in ("rand", "rand-m9-mstd0.5-inc1", "rand-m6-n3-p0.7-mmax20-t3aw", "rand-mstd1-tweights"):
        with subtests.test(text):
            assert DeiT(rand=text).rand == text
            rand_augment_transform(text)
    for text in ("", "randx", "rand-m9.5", "rand-q3", "rand-mstdinf", "rand-p1.5", "rand-tfoo", "augmix-m5"):
        with subtests.test(text), pytest.raises(SpecError, match=r"^rand must be timm's string of a RandAugment"):
            DeiT(rand=text)


def test_smoothing_alone_keeps_pixels():
    images = pictures(6)
    made, soft = augmentation(DeiT(mixup=0, cutmix=0, smoothing=0.2)).batch(images, targets(6), torch.arange(6), 1, 0)
    assert torch.equal(made, images)
    assert torch.allclose(soft, one_hot(targets(6), CLASSES) * 0.8 + 0.2 / CLASSES)


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


@pytest.mark.parametrize("spec", [DeiT(), DeiT(mixup=0, cutmix=0)], ids=["mixed", "smoothed"])
def test_soft_targets_have_the_type_of_the_images(spec):
    images, soft = augmentation(spec).batch(pictures(4).double(), targets(4), torch.arange(4), 1, 0)
    assert images.dtype == soft.dtype == torch.float64
    assert soft.shape == (4, CLASSES)


SIDE = 24
PLAIN = {"rand": None, "scale": 1.0, "flip": 0.0, "erase": 0.0}


def photographs(count, side=SIDE, blur=2.0, seed=0):
    """Smooth pictures of all colors, some of them dark or without contrast."""
    rng = np.random.default_rng(seed)
    made = []
    for number in range(count):
        noise = rng.normal(rng.uniform(60, 200), 8 + 60 * (number % 3), (2 * side, 2 * side, 3)).clip(0, 255)
        image = Image.fromarray(noise.astype(np.uint8)).filter(ImageFilter.GaussianBlur(blur))
        stretched = (np.asarray(image).astype(float) - 128) * rng.uniform(0.2, 4) + 128
        made.append(stretched.clip(0, 255).astype(np.uint8)[:side, :side])
    return made


def batch(images):
    return torch.from_numpy(np.stack(images).transpose(0, 3, 1, 2).copy())


LEVELS = {
    "auto_contrast": [()], "equalize": [()], "invert": [()],
    "solarize": [(0,), (100,), (256,)], "solarize_add": [(0,), (37,), (110,)], "posterize": [(1,), (3,), (4,), (8,)],
    "brightness": [(0.1,), (0.73,), (1.9,)], "contrast": [(0.1,), (0.73,), (1.9,)], "color": [(0.1,), (1.0,), (1.9,)],
    "desaturate": [(0.5,), (0.8,), (1.0,)], "sharpness": [(0.1,), (0.73,), (1.9,)],
}  # fmt: skip


@pytest.mark.parametrize("name", LEVELS)
def test_colors_change_as_timms(name):
    """At most 1 apart, where a product of floats lies at a whole number."""
    for level in LEVELS[name]:
        images = photographs(12, seed=len(name))
        ours = changed(batch(images), [[(name, level)]] * 12)
        expected = [np.asarray(getattr(auto_augment, name)(Image.fromarray(image), *level)) for image in images]
        apart = (ours.int() - batch(expected).int()).abs()
        assert apart.max() <= 1, (level, apart.max())
        assert (apart > 0).float().mean() < 0.01, level


MOVED = {
    "rotate": [-30.0, 4.0, 21.0], "shear_x": [-0.3, 0.11], "shear_y": [-0.3, 0.11],
    "translate_x_rel": [-0.45, 0.1], "translate_y_rel": [-0.45, 0.1],
}  # fmt: skip


@pytest.mark.parametrize("name", MOVED)
def test_images_move_as_timms(name):
    """The kernels differ a little; the color beside the image, and where it begins, are the same."""
    for level in MOVED[name]:
        images = photographs(6, blur=4.0, seed=3)
        ours = changed(batch(images), [[(name, (level,))]] * 6).int()
        settings = {"fillcolor": FILL, "resample": Image.Resampling.BICUBIC}
        expected = batch([
            np.asarray(getattr(auto_augment, name)(Image.fromarray(image), level, **settings)) for image in images
        ]).int()  # fmt: skip
        outside = (expected == torch.tensor(FILL)[:, None, None]).all(1)
        assert torch.equal((ours == torch.tensor(FILL)[:, None, None]).all(1), outside)
        assert outside.float().mean() > 0.01
        assert (ours - expected).abs().float().mean() < 1.5, level
        assert (ours - expected).abs().max() <= 16, level


def test_no_bits_are_black():
    """RandAugment draws it for 2 images of 100; Pillow 13 refuses it."""
    assert not changed(batch(photographs(2)), [[("posterize", (0,))]] * 2).any()


def test_a_blur_is_a_gaussian():
    from scipy.ndimage import gaussian_filter

    images = photographs(3, blur=0.5)
    ours = changed(batch(images), [[("gaussian_blur", (sigma,))] for sigma in (0.1, 1.0, 2.0)])
    for image, sigma, blurred in zip(images, (0.1, 1.0, 2.0), ours, strict=True):
        smooth = gaussian_filter(image.astype(float), (sigma, sigma, 0), mode="nearest", truncate=6 / sigma)
        assert np.abs(smooth - blurred.permute(1, 2, 0).numpy()).max() <= 1


def test_all_that_rand_augment_draws_is_known():
    sets = [auto_augment._RAND_TRANSFORMS, auto_augment._RAND_INCREASING_TRANSFORMS, auto_augment._RAND_3A,
            auto_augment._RAND_WEIGHTED_3A, auto_augment._RAND_WEIGHTED_0]  # fmt: skip
    names = {auto_augment.NAME_TO_OP[name].__name__ for group in sets for name in group}
    assert names <= CHANGES.keys()
    assert names == CHANGES.keys(), "nothing is there for nobody"


def test_rand_augment_is_drawn_as_timm_draws_it():
    """The same numbers come from the same generators."""
    changes = Changes(DeiT(**PLAIN | {"rand": "rand-m9-mstd0.5-inc1"}), 3)
    timms = auto_augment.rand_augment_transform(
        "rand-m9-mstd0.5-inc1", {"translate_const": 10, "img_mean": FILL, "interpolation": Image.Resampling.BICUBIC}
    )
    images = photographs(60, seed=8)
    drawn = [(1, number, 0) for number in range(60)]
    ours = changes.batch(batch(images), drawn).int()
    expected = []
    for image, of_image in zip(images, drawn, strict=True):
        with seeded(stream_seed(3, "change", *of_image)):
            random.seed(stream_seed(3, "change", *of_image))
            random.random()  # the flip's
            expected.append(np.asarray(timms(Image.fromarray(image))))
    apart = (ours - batch(expected).int()).abs().float().mean((1, 2, 3))
    assert (apart < 2).float().mean() > 0.95
    assert (ours != batch(images).int()).any(3).any(2).any(1).float().mean() > 0.5


def test_an_image_depends_on_no_batch():
    changes, images = Changes(DeiT(), 5), batch(photographs(16))
    drawn = [(2, number, number % 3) for number in range(16)]
    whole = changes.batch(images, drawn)
    for part in ([3], [9, 2, 15], [*range(0, 16, 2)]):
        assert torch.equal(changes.batch(images[part], [drawn[place] for place in part]), whole[part])
    for other in ([(3, *rest) for _, *rest in drawn], [(epoch, place, 9) for epoch, place, _ in drawn]):
        assert not torch.equal(changes.batch(images, other), whole)
    assert not torch.equal(Changes(DeiT(), 6).batch(images, drawn), whole)


def test_a_flip_is_as_likely_as_it_says():
    images, drawn = batch(photographs(1) * 600), [(1, number, 0) for number in range(600)]
    made = Changes(DeiT(**PLAIN | {"flip": 0.3}), 0).batch(images, drawn)
    flipped = (made == images.flip(3)).flatten(1).all(1)
    assert torch.equal(flipped, ~(made == images).flatten(1).all(1))
    assert abs(flipped.float().mean() - 0.3) < 0.075, "4 standard deviations"


def test_erasing_makes_noise_of_a_rectangle():
    images, drawn = torch.zeros(400, 3, 32, 32, dtype=torch.uint8), [(1, number, 0) for number in range(400)]
    made = Changes(DeiT(**PLAIN | {"erase": 0.5}), 0).batch(images, drawn)
    erased = made.flatten(1).any(1)
    assert abs(erased.float().mean() - 0.5) < 0.1, "4 standard deviations"
    areas = []
    for image in made[erased]:
        where = image.any(0)
        rows, columns = where.any(1).nonzero().flatten(), where.any(0).nonzero().flatten()
        box = where[rows[0] : rows[-1] + 1, columns[0] : columns[-1] + 1]
        assert box.float().mean() > 0.9
        areas.append(float(where.float().mean()))
    assert min(areas) > 0.015
    assert max(areas) <= 0.36
    assert len({tuple(image[:, image.any(0)][:, 0].tolist()) for image in made[erased]}) > 100, "each its own noise"
    timms = []
    for number in range(400):
        with seeded(number):
            random.seed(number)
            timms.append(
                float((RandomErasing(1.0, mode="const", device="cpu")(torch.ones(3, 32, 32)) == 0).float().mean())
            )
    assert np.mean(areas) == pytest.approx(np.mean(timms), abs=4 * np.std(timms) * math.sqrt(1 / 200 + 1 / 400))


def test_noise_has_the_mean_and_deviation_of_imagenet():
    images = torch.zeros(200, 3, 48, 48, dtype=torch.uint8)
    made = Changes(DeiT(**PLAIN | {"erase": 1.0}), 1).batch(images, [(1, number, 0) for number in range(200)])
    pixels = made.permute(1, 0, 2, 3)[:, made.any(1)].float() / 255
    assert pixels.mean(1) == pytest.approx(np.array([0.485, 0.456, 0.406]), abs=0.02)
    assert pixels.std(1) == pytest.approx(np.array([0.229, 0.224, 0.225]), abs=0.02)


def test_a_random_part_is_timms_within_two_levels():
    cut = RandomResizedCropAndInterpolation(SIDE, (0.08, 1.0), interpolation="bicubic")
    for number in range(20):
        (image,) = photographs(1, side=70, seed=number)
        with seeded(number):
            random.seed(number)
            part = random_part(Image.fromarray(image), 0.08, SIDE)
            random.seed(number)
            timms = cut(Image.fromarray(image))
        apart = np.abs(part.astype(int) - np.asarray(timms).transpose(2, 0, 1))
        assert part.shape == (3, SIDE, SIDE)
        assert apart.max() <= 3
        assert (apart > 0).mean() < 0.1
