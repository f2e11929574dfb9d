"""Predictions of models of every precision and kind of data, held against the evaluation that scores a run."""

from contextlib import nullcontext

import numpy as np
import pytest
import torch
from PIL import Image

from trainables.data import Cifar10, Digits, MeanStd, RedGreen
from trainables.data.class_names_torch import class_names
from trainables.data.splits_torch import load
from trainables.encodings import PEG
from trainables.recipe import Recipe
from trainables.recipe.model_torch import build_model
from trainables.spec import LocusError, SpecError
from trainables.training import model_file
from trainables.training import trained as trained_models
from trainables.training.distributed import SINGLE
from trainables.training.evaluation import Evaluation
from trainables.training.init import init_weights
from trainables.training.model_file import in_float32, made_floats, made_images, read_model, write_model
from trainables.training.normalize import normalizer
from trainables.training.pictures import pixels, white
from trainables.training.runtime import HALVES
from trainables.training.trained import Facts, TrainedModel


def trained(recipe: Recipe) -> TrainedModel:
    """A model with weights that were drawn."""
    model = build_model(recipe)
    init_weights(model, 1)
    data = recipe.data
    facts = Facts(
        recipe=recipe, seed=1, classes=class_names(data, None), image_size=data.size, white=white(data),
        normalize=recipe.normalize, averaged=False, scores={}, study="s", trial="t", key="k", code="c", locus="1",
    )  # fmt: skip
    return TrainedModel(facts, model.state_dict())


def test_predictions_are_what_an_evaluation_counts():
    more = {"normalize": MeanStd(mean=(0.3, 0.2, 0.1), std=(0.2, 0.3, 0.4))}
    datasets = (Digits(), RedGreen(task="direction4", image_size=16, train_size=8, val_size=8, test_size=100, **more))
    for data in datasets:
        for precision in ("float64", "bfloat16", "float16"):
            recipe = Recipe(data=data).put({"optimizer.precision": precision, "model.patch_size": 4})
            model, test = trained(recipe), load(data).test
            cpu, half = torch.device("cpu"), HALVES.get(precision)
            kind = torch.float64 if precision == "float64" else torch.float32
            autocast = torch.autocast("cpu", dtype=half or torch.bfloat16, enabled=half is not None)
            evaluate = Evaluation(recipe, normalizer(recipe, cpu, kind), kind, autocast, SINGLE)
            arrays = test.images[:100].permute(0, 2, 3, 1).numpy()
            found = model.predict(arrays)
            assert next(model.model.parameters()).dtype == kind
            assert found.classes == tuple(map(str, range(data.outputs)))
            right = sum(int(one) == two for one, two in zip(found.labels, test.targets[:100].tolist(), strict=True))
            some = type(test)(test.images[:100], test.targets[:100], test.max_value)
            assert right / 100 == evaluate(model.model, "test", some), (data.kind, precision)
            assert np.array_equal(model.predict(test.images[:100]).outputs, found.outputs)


RED_GREEN = Recipe(data=RedGreen(normalize=MeanStd(mean=(0.3, 0.2, 0.1), std=(0.2, 0.3, 0.4))))


def test_a_model_in_training_predicts_as_in_evaluation_and_stays_as_it_is():
    model = trained(RED_GREEN.put({"encoding": PEG(form="depthwise_stack")}))
    images = torch.rand(4, *model.facts.image_size)
    expected = model.predict(images).outputs
    model.train().model.blocks[0].eval()
    before, modes = model.state_dict(), [module.training for module in model.modules()]
    before = {name: value.clone() for name, value in before.items()}
    assert np.array_equal(model.predict(images).outputs, expected)
    assert [module.training for module in model.modules()] == modes
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_where_each_class_is_a_question_its_probability_is_a_sigmoid():
    recipe = Recipe(data=Digits())
    model, asked = trained(recipe), trained(recipe.put({"loss": {"kind": "bce"}}))
    images = torch.rand(4, 1, 8, 8)
    with torch.no_grad():
        asked.model.head.bias.sub_(5)
    assert model.predict(images).probabilities.sum(axis=1) == pytest.approx(1)
    found = asked.predict(images)
    np.testing.assert_allclose(found.probabilities, 1 / (1 + np.exp(-found.outputs)))
    assert found.probabilities.max() < 0.1
    with torch.no_grad():
        asked.model.head.bias.add_(torch.arange(10) + 100)
    assert asked.predict(images).labels == 4 * ["9"], "all probabilities round to 1"


def test_a_model_computes_where_its_weights_are(monkeypatch):
    model = trained(RED_GREEN)
    images = torch.rand(2, *model.facts.image_size)
    expected = model.predict(images).outputs
    found = model.double()(images)
    assert found.dtype == torch.float64
    np.testing.assert_allclose(found, expected, atol=1e-5)
    np.testing.assert_allclose(model.predict(images).outputs, found, atol=1e-12)
    asked = []  # torch has no autocast for this device, which stands for a GPU
    monkeypatch.setattr(trained_models, "autocast", lambda device, _: asked.append(device) or nullcontext())
    assert model.to("meta")((255 * images).to(torch.uint8)).device.type == "meta"
    assert asked == ["meta"]


def test_an_onnx_file_is_made_of_float32(request):
    if request.config.getoption("--processor") is not None:
        pytest.skip("torch exports nothing inside a mode such as that of a played processor")
    for precision in ("float64", "bfloat16", "float16"):
        model = trained(RED_GREEN.put({"optimizer.precision": precision}))
        other, images = in_float32(model), made_floats(model)
        graph = torch.export.export(other, (images,)).graph
        kinds = {node.meta["val"].dtype for node in graph.nodes if hasattr(node.meta.get("val"), "dtype")}
        assert {kind for kind in kinds if kind.is_floating_point} == {torch.float32}, precision
        torch.testing.assert_close(other(images).double(), model(made_images(model)).double(), atol=0.05, rtol=0)
        assert model.precision == precision


def test_a_model_whose_weights_would_lie_beside_its_onnx_file_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(model_file, "ONNX_NEEDS", ())  # it is refused before they are used
    monkeypatch.setattr(model_file, "ONNX_BYTES", 2**17)
    with pytest.raises(LocusError, match=r"must take at most .* in a file of ONNX, got .*: write .pt"):
        write_model(tmp_path / "large.onnx", trained(RED_GREEN))
    assert not [*tmp_path.iterdir()]


def test_outputs_are_compared_by_their_own_size(tmp_path):
    model = trained(RED_GREEN)
    with torch.no_grad():
        for value in model.model.head.parameters():
            value.mul_(1e-3)
    write_model(tmp_path / "small.pt", model.train())
    assert not read_model(tmp_path / "small.pt").training
    held = torch.load(tmp_path / "small.pt", weights_only=True)
    held["state_dict"]["head.weight"].mul_(-1)
    torch.save(held, tmp_path / "small.pt")
    with pytest.raises(LocusError, match="must compute what it did when it was written, got other outputs"):
        read_model(tmp_path / "small.pt")


def test_what_is_no_file_of_todays_code_is_one_sentence(tmp_path):
    path = tmp_path / "model.pt"
    write_model(path, trained(RED_GREEN))
    held = torch.load(path, weights_only=True)
    weights, said = held["state_dict"], held["metadata"]
    less = {name: value for name, value in weights.items() if name != "head.bias"}
    damaged = "model.pt must be a model that locus exported, got one whose {} cannot be read"
    other = "must compute what it did when it was written, got a model with other weights: read it with locus 1"
    for content, match in (
        ({"state_dict": less, "metadata": said}, other),
        ({"state_dict": weights | {"head.bias": torch.zeros(7)}, "metadata": said}, other),
        ({"state_dict": weights, "metadata": said | {"classes": "[cat"}}, damaged.format("classes")),
        ({"state_dict": weights, "metadata": said | {"outputs": "no"}}, damaged.format("outputs")),
        ({"state_dict": weights, "metadata": said | {"outputs": "[[1.0], 2.0]"}}, damaged.format("outputs")),
        ({"state_dict": weights, "metadata": said | {"outputs": "[[1.0]]"}}, "got other outputs"),
        ({"state_dict": [*weights], "metadata": said}, "got a file without its recipe"),
    ):
        torch.save(content, path)
        with pytest.raises(LocusError, match=match):
            read_model(path)


def test_a_set_that_is_made_takes_its_own_images_alone():
    digits, squares = trained(Recipe(data=Digits())), trained(Recipe(data=RedGreen(task="distance")))
    images = load(RedGreen(task="distance")).test.images[:3].permute(0, 2, 3, 1).numpy()
    found = squares.predict(images)
    assert np.array_equal(squares.predict([Image.fromarray(one) for one in images]).outputs, found.outputs)
    assert repr(found).split()[:5] == ["image", "output", "0", "output", "1"]
    with pytest.raises(
        SpecError, match="probabilities must be those of classes, got a model whose outputs are numbers"
    ):
        found.labels
    for model, image, said in (
        (digits, Image.new("RGB", (8, 8)), "image 0 must be an array or a tensor, because nothing says .* of digits"),
        (digits, np.full((8, 8, 1), 17, np.uint8), "bytes of image 0 must be up to 16, which is white, got 17"),
        (digits, np.zeros((8, 8, 3), np.uint8), r"image 0 must be of shape \(8, 8, 1\), got \(8, 8, 3\)"),
        (squares, Image.new("RGB", (40, 40)), r"image 0 must be of shape \(32, 32, 3\), got \(40, 40, 3\)"),
    ):
        with pytest.raises(SpecError, match=said):
            model.predict(image)
    with torch.no_grad():
        digits.model.head.bias.fill_(torch.nan)
    with pytest.raises(LocusError, match="outputs must be finite, got others for image 0"):
        digits.predict(np.zeros((8, 8, 1), np.uint8))


def test_an_image_of_several_pages_stays_open(tmp_path):
    pages = [Image.new("RGB", (40, 40), (shade, shade, shade)) for shade in (0, 255)]
    data = Cifar10()
    for ending in ("tif", "gif"):
        path = tmp_path / f"two.{ending}"
        pages[0].save(path, save_all=True, append_images=pages[1:])
        with Image.open(path) as image:
            for number, shade in enumerate((0, 255, 0)):
                image.seek(number % 2)
                assert pixels("0", image, data).unique().tolist() == [shade]
