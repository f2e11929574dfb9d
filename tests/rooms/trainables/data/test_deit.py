"""DeiT's changes of batches, each beside what timm's functions make of Pillow's images, one after another."""

import math
import random

import numpy as np
import pytest
import torch
from PIL import Image, ImageFilter
from timm.data import auto_augment
from timm.data.random_erasing import RandomErasing
from timm.data.transforms import RandomResizedCropAndInterpolation

from trainables.data.augment import DeiT
from trainables.data.deit_torch import CHANGES, FILL, Changes, changed, random_part
from trainables.rng_torch import seeded, stream_seed

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
