"""A trained model at other sides of images: in a training, after a resume, by hand."""

import numpy as np
import pytest
import torch
from PIL import Image

from tests.laws.conftest import toy
from trainables.backbones import ViT
from trainables.data import RedGreen
from trainables.data.splits_torch import load
from trainables.encodings import PEG, Composed, Learnable, NoEncoding, RelativeBias
from trainables.recipe import AdamW, Recipe, Run
from trainables.recipe.model_torch import build_model
from trainables.recipe.outcome import at_image_size
from trainables.rng_torch import torch_stream
from trainables.spec import SpecError
from trainables.training.checkpoint import WEIGHTS, read
from trainables.training.loop import build_model_with_weights, train
from trainables.weights.transfer import at_size, resized

RECIPE = Recipe(
    data=RedGreen(image_size=16, square=4, train_size=40, val_size=12, test_size=14),
    model=ViT(embed_dim=8, num_heads=2, depth=2),
    encoding=Composed(parts=(Learnable(std=0.5), PEG(form="dense_stack"), RelativeBias())),
    optimizer=AdamW(lr=0.01, epochs=2, batch_size=16),
    test_sizes=(24, 12, 32),
)


def ends(measurements):
    return {name: value for name, value in list(measurements)[-1].values.items() if name.startswith("test/")}


def test_a_training_ends_with_a_score_at_each_side(tmp_path):
    first, last = train(Run(RECIPE, 3), tmp_path)
    assert not [name for name in first.values if name.startswith("test/")]
    sides = ["test/accuracy", "test/accuracy_at_12", "test/accuracy_at_24", "test/accuracy_at_32"]
    assert [*ends([last])] == sides
    model = build_model(RECIPE)
    model.load_state_dict(read(tmp_path / WEIGHTS))
    images, targets = load(RECIPE.data).test.batch(slice(None), torch.float32)
    for side in RECIPE.test_sizes:
        with torch.no_grad():
            hits = at_size(model, RECIPE, side)(resized(images, side)).argmax(1) == targets
        assert last.values[at_image_size("test/accuracy", side)] == pytest.approx(hits.double().mean().item())


def test_sizes_leave_the_training_as_it_is(tmp_path):
    scores = []
    for sizes in ((), (24, 12)):
        (tmp_path / f"{len(sizes)}").mkdir()
        run = Run(RECIPE.put({"test_sizes": list(sizes)}), 0)
        scores.append([m.values["train/loss"] for m in train(run, tmp_path / f"{len(sizes)}")])
    assert scores[0] == scores[1]
    weights = [read(tmp_path / name / WEIGHTS) for name in ("0", "2")]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())


def test_a_table_of_ones_own_that_nobody_resamples_is_refused_before_the_first_epoch(tmp_path):
    run = Run(RECIPE.put({"encoding": toy("Marker").plain()}), 0)
    said = r"^test_sizes change the grid: encoding.Marker.marks must be of shape \(10, 4\) there, got \(17, 4\); "
    said += "write a method resampled"
    with pytest.raises(SpecError, match=said):
        next(train(run, tmp_path))


@pytest.mark.parametrize("task", ["distance", "absolute"])
@pytest.mark.parametrize("precision", ["float64", "bfloat16"])
def test_every_measure_and_precision(tmp_path, task, precision):
    recipe = RECIPE.put(
        {"data.task": task, "optimizer.precision": precision, "optimizer.epochs": 1, "test_sizes": [24]}
    )
    name = f"test/{recipe.data.metric}_at_24"
    assert ends(train(Run(recipe, 0), tmp_path))[name] <= 1


def test_the_model_at_another_side_is_its_own(tmp_path):
    model = build_model_with_weights(RECIPE, 0).double()
    torch.manual_seed(5)
    before = torch.get_rng_state()
    other = at_size(model, RECIPE, 24)
    assert torch.equal(torch.get_rng_state(), before)
    assert (other.grid.rows, other.training, model.training) == (6, False, True)
    assert {value.dtype for value in other.parameters()} == {torch.float64}
    assert not {value.data_ptr() for value in other.parameters()} & {value.data_ptr() for value in model.parameters()}
    same, images = at_size(model, RECIPE, 16), torch.randn(3, 3, 16, 16, dtype=torch.float64)
    assert torch.equal(same(images), model.eval()(images))


def test_a_side_that_cannot_be_is_refused():
    with pytest.raises(SpecError, match=r"^test_sizes must be such that at 18 px model.patch_size is a divisor"):
        at_size(build_model_with_weights(RECIPE, 0), RECIPE, 18)


def test_a_bag_of_patches_does_not_care_where_they_are():
    """Four copies of an image side by side hold the same patches in the same shares."""
    recipe = RECIPE.put({"encoding": NoEncoding().plain(), "model.pool": "avg", "test_sizes": [32]})
    model = build_model_with_weights(recipe, 0).double().eval()
    images = torch.rand(2, 3, 16, 16, dtype=torch.float64, generator=torch_stream(0, "images"))
    with torch.no_grad():
        apart = (at_size(model, recipe, 32)(images.repeat(1, 1, 2, 2)) - model(images)).abs().amax()
    assert apart < 1e-12


@pytest.mark.parametrize("side", [20, 7])
def test_images_are_resized_as_a_loader_does(side):
    pixels = torch.randint(80, 176, (2, 3, 12, 12), generator=torch_stream(0, "pixels"))  # nothing to cut
    made = resized(pixels / 255, side)
    assert made.shape == (2, 3, side, side)
    for image, ours in zip(pixels, made, strict=True):
        picture = Image.fromarray(image.permute(1, 2, 0).numpy().astype(np.uint8))
        theirs = np.asarray(picture.resize((side, side), Image.Resampling.BICUBIC)) / 255
        np.testing.assert_allclose(ours.permute(1, 2, 0), theirs, atol=2 / 255)  # PIL rounds twice


def test_resized_images_stay_between_black_and_white():
    made = resized(torch.randint(0, 2, (2, 3, 12, 12)).double(), 20)
    assert (float(made.min()), float(made.max())) == (0, 1)
