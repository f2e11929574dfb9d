"""What one looks at with photographs: classes, the confusion matrix, and the images that most models have wrong."""

from __future__ import annotations

import base64
import io
import os
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from sklearn.metrics import confusion_matrix

from search_spaces.study import Ablation, Study
from service.reporting.figures.classes import MOST as MOST_CLASSES
from service.reporting.figures.classes import Answers, by_class, gallery
from service.results import Result, compute_probes
from service.storage.home import Home
from service.storage.outcomes import read_probe, write_probe
from tests.rooms.photographs import CLASSES, home_of, photographs, recipe
from trainables.backbones import ViT
from trainables.data import Arrays
from trainables.data.images_torch import centered
from trainables.data.splits_torch import Reading, load
from trainables.data.upright_rgb import opened
from trainables.encodings import Fourier
from trainables.probes.catalog import probe_of
from trainables.probes.inputs.subject import Subject
from trainables.recipe import AdamW, Recipe
from trainables.recipe.model_torch import build_model


def looked(root: Path, base: Recipe, epochs: int = 4) -> Result:
    """One arm of three seeds, trained, and looked at on its test images."""
    base = base.put({"optimizer.epochs": epochs})
    study = Study(name="pets", question="?", base=base, plan=Ablation({"far": {}}, "far"), seeds=3)
    home = home_of(root, study)
    compute_probes(Result.open(home, "pets@base"), lambda said: None, lambda: False)
    return Result.open(home, "pets@base")


@pytest.fixture(scope="module")
def pets(tmp_path_factory) -> Result:
    root = tmp_path_factory.mktemp("photographs")
    return looked(root / "home", recipe(photographs(root / "pets", {"train": 20, "val": 10, "test": 15})))


def opened_again(result: Result) -> Result:
    return Result.open(Home(result.home.root), result.edition.id)


def test_each_wrong_image_is_the_file_of_its_name(tmp_path) -> None:
    """Held out, own splits, some of them, and folds: each name leads to the very pixels that the model was shown."""
    split = recipe(photographs(tmp_path / "split", {"train": 6, "val": 3, "test": 5}))
    whole = recipe(photographs(tmp_path / "whole", {"train": 12}))
    cases = [
        (split, {}), (split, {"data.test_size": 7, "data.data_seed": 3}), (whole, {"data.test_size": 8}),
        (recipe(photographs(tmp_path / "folds", {"train": 6, "test": 4})), {"data.folds": 3}),
        (recipe(photographs(tmp_path / "halves", {"train": 6, "test": 8})), {"data.val_from": "test"}),
    ]  # fmt: skip
    for number, (base, values) in enumerate(cases):
        one = base.put(values)
        arrays = probe_of("right_images")(Subject(one, build_model(one).double(), 1, tmp_path / f"data{number}")).arrays
        test = load(one.data, Reading(seed=1)).test
        pixels = test.images.numpy()
        wrong = np.flatnonzero(arrays["predicted"] != test.targets.numpy())
        assert len(wrong) == len(arrays["wrong"]) > 0
        assert tuple(arrays["classes"]) == CLASSES
        for place, name in zip(wrong, arrays["wrong"], strict=True):
            file = Path(one.data.path) / str(name)
            assert file.parent.name == CLASSES[test.targets[place]]
            image = centered(opened(name, lambda file=file: Image.open(file)), one.data)
            assert (np.asarray(image).transpose(2, 0, 1) == pixels[place]).all(), (number, name)


def test_the_matrix_and_the_accuracies_are_those_of_the_models(pets) -> None:
    row = pets.best
    images = load(row.recipe.data, Reading(pets.home.data)).test
    (pixels, targets), *_ = images.batches([torch.arange(45)], torch.float32)
    said = {seed: row.predict([*pixels], seed).outputs.argmax(axis=1) for seed in range(3)}
    every = confusion_matrix(np.tile(targets.numpy(), 3), np.concatenate([*said.values()]), normalize="true")
    answers = Answers.of(row)
    assert answers.confusion() == pytest.approx(every)
    plot = by_class(pets)
    fig = plot.draw()
    matrix, accuracy = fig.axes
    order = [CLASSES.index(tick.get_text()) for tick in matrix.get_yticklabels()]
    drawn = np.array([text.get_text() for text in matrix.texts]).astype(float).reshape(3, 3)
    assert drawn == pytest.approx(every[np.ix_(order, order)], abs=0.0051)
    assert [float(line.get_xdata()[0]) for line in accuracy.lines if line.get_marker() == "o"] == pytest.approx(
        np.diag(every)[order]
    )
    assert sum(answers.of_class(number).mean * 15 for number in range(3)) / 45 == pytest.approx(row.test.mean)
    assert "the 3 models of “far”" in plot.caption


def test_a_page_shows_the_wrong_images_with_links_and_small_pictures(pets) -> None:
    shown = gallery(pets)
    answers = Answers.of(pets.best)
    counts = sum((predicted != answers.targets).astype(int) for predicted in answers.predicted.values())
    assert len(shown) == min((counts >= 2).sum(), 40) > 0
    counted = [int(picture.says.rpartition(", ")[2].partition(" of 3")[0]) for picture in shown]
    assert counted == sorted(counts[counts >= 2], reverse=True)[:40]
    page = pets.report().read_text()
    for picture in shown:
        file = Path(pets.best.recipe.data.path) / picture.name
        assert picture.address == file.as_uri()
        assert f'href="{file.as_uri()}"' in page
        assert picture.says.startswith(f"{file.parent.name} → ")
        bytes_of = base64.b64decode(picture.source.removeprefix("data:image/jpeg;base64,"))
        small, own = Image.open(io.BytesIO(bytes_of)), opened(str(file), lambda file=file: Image.open(file))
        assert small.size == own.size, "upright, and no larger than it is"
        assert np.abs(np.asarray(small, float).mean((0, 1)) - np.asarray(own, float).mean((0, 1))).max() < 8
    assert sum(len(picture.source) for picture in shown) < 300_000


def test_results_of_a_study_that_runs_begin_with_its_curves(pets) -> None:
    running, ended = (pets.report(refresh_s=second).read_text() for second in (30, None))
    parts = ('id="figure-curves"', 'id="figure-trials"', 'id="table-results"')
    assert [*sorted(parts, key=running.index)] == [*parts]
    assert [*sorted(parts, key=ended.index)] == [parts[2], parts[1], parts[0]]
    assert [text.count('id="figure-curves"') for text in (running, ended)] == [1, 1]


def test_large_pictures_stay_small_on_the_page(tmp_path, monkeypatch, pets) -> None:
    """Forty pictures of noise, which no format makes small."""
    noise = np.random.default_rng(0).integers(0, 255, (400, 400, 3), np.uint8)
    file = tmp_path / "loud.jpg"
    Image.fromarray(noise).save(file, quality=95)
    data, answers = pets.best.recipe.data, Answers.of(pets.best)
    many = replace(
        answers, targets=np.zeros(60, int), predicted={seed: np.ones(60, int) for seed in range(3)},
        names=dict.fromkeys(range(60), os.path.relpath(file, data.path)),
    )  # fmt: skip
    monkeypatch.setattr(Answers, "of", lambda row: many)
    shown = gallery(pets)
    assert len(shown) == 40
    assert 100_000 < sum(len(picture.source) for picture in shown) < 300_000


def test_images_that_are_gone_are_named_without_a_link(pets) -> None:
    root = Path(pets.best.recipe.data.path)
    there = gallery(pets)
    root.rename(root.with_name("away"))
    decoded = pets.home.data / "decoded"
    try:
        seen = gallery(opened_again(pets))
        assert all(picture.source for picture in seen), "as runs have read them"
        decoded.rename(decoded.with_name("gone"))
        gone = gallery(opened_again(pets))
    finally:
        root.with_name("away").rename(root)
        decoded.with_name("gone").rename(decoded)
    assert [picture.name for picture in gone] == [picture.name for picture in there]
    assert {(picture.source, picture.address) for picture in gone} == {("", "")}


def test_a_damaged_or_a_very_large_image_is_shown_as_runs_have_read_it(pets, monkeypatch) -> None:
    root, answers = Path(pets.best.recipe.data.path), Answers.of(pets.best)
    first = next(iter(answers.wrong()))
    name = os.fsdecode(b"test/cat/<b>\xff.png")  # which breaks no page either
    large = io.BytesIO()
    Image.new("RGB", (1500, 1500)).save(large, "PNG")
    odd = replace(answers, names=answers.names | {first: name})
    monkeypatch.setattr(Answers, "of", lambda row: odd)
    try:
        for content in (b"no image", large.getvalue()):
            (root / name).write_bytes(content)
            page = pets.report().read_bytes().decode()
            picture = next(picture for picture in gallery(pets) if picture.name.startswith("test/cat/<b>"))
            small = Image.open(io.BytesIO(base64.b64decode(picture.source.removeprefix("data:image/jpeg;base64,"))))
            assert small.size == (16, 16), "the side of the images that runs read"
    finally:
        (root / name).unlink()
    assert picture.address.endswith("%3Cb%3E%FF.png")
    assert "&lt;b&gt;" in page
    assert "<b>\\" not in page


def test_answers_of_older_code_or_of_some_seeds_alone_give_no_such_figures(pets, tmp_path) -> None:
    files = [run.path("right_images") for run in pets.best.probes.values()]
    kept = {file: file.read_bytes() for file in files}
    code, probed = read_probe(files[0])
    old = replace(probed, after=replace(probed.after, arrays={"right": probed.after.arrays["right"]}))
    try:
        write_probe(files[0], old, code)
        result = opened_again(pets)
        assert (by_class(result), gallery(result), Answers.of(result.best)) == (None, [], None)
        assert result.best.test.estimate.draws == 45, "which images are right is known all the same"
        assert 'id="wrong"' not in result.report().read_text()
        files[0].unlink()
        assert by_class(opened_again(pets)) is None
    finally:
        for file, content in kept.items():
            file.write_bytes(content)
    assert by_class(opened_again(pets)) is not None
    unlearned = opened_again(pets)
    unlearned.__dict__["winners"] = []
    assert (unlearned.best, by_class(unlearned), gallery(unlearned)) == (None, None, [])


def test_images_of_an_array_are_shown_as_runs_read_them(tmp_path) -> None:
    """Each image has a color of its own, so that a picture in another's place is found."""
    random = np.random.default_rng(2)
    colors = random.permutation(np.stack(np.meshgrid(*[range(20, 255, 50)] * 3), -1).reshape(-1, 3))[:90]
    labels = np.arange(90) % 3
    file = tmp_path / "colors.npz"
    np.savez(file, images=np.broadcast_to(colors[:, None, None], (90, 16, 16, 3)).astype(np.uint8), labels=labels)
    model = ViT(embed_dim=16, num_heads=2, patch_size=4, pool="avg")
    base = Recipe(
        data=Arrays(path=str(file), val_size=20, test_size=30), model=model, encoding=Fourier(),
        optimizer=AdamW(batch_size=10, lr=0.003),
    )  # fmt: skip
    result = looked(tmp_path / "home", base, epochs=2)
    # such labels cannot be learned, so the trial is called best here
    result.__dict__["winners"] = result.of("trial")
    pictures = gallery(result)
    assert len(pictures) > 5
    for picture in pictures:
        number = int(re.fullmatch(r"image (\d+)", picture.name)[1])
        bytes_of = base64.b64decode(picture.source.removeprefix("data:image/jpeg;base64,"))
        assert np.asarray(Image.open(io.BytesIO(bytes_of)), float).mean((0, 1)) == pytest.approx(colors[number], abs=4)
        assert picture.says.startswith(f"{labels[number]} → ")
        assert picture.address == ""


def test_of_many_classes_those_are_shown_that_are_lowest(pets, monkeypatch) -> None:
    random = np.random.default_rng(1)
    targets = np.repeat(np.arange(30), 6)
    guesses = random.integers(0, 30, (2, 180))
    predicted = {seed: np.where(random.random(180) < targets / 30, targets, guesses[seed]) for seed in (0, 1)}
    names = [f"a class with the long name {number}" for number in range(30)]
    many = Answers(names, targets, predicted, {}, frozenset())
    monkeypatch.setattr(Answers, "of", lambda row: many)
    plot = by_class(pets)
    matrix, accuracy = plot.draw().axes
    means = np.array([np.mean([(said[targets == k] == k).mean() for said in predicted.values()]) for k in range(30)])
    dots = [float(line.get_xdata()[0]) for line in accuracy.lines if line.get_marker() == "o"]
    assert dots == pytest.approx(np.sort(means)[:MOST_CLASSES][::-1])
    assert len(matrix.patches) == MOST_CLASSES**2


def test_accuracies_and_intervals_of_a_class() -> None:
    answers = Answers(["a", "b"], np.array([0, 0, 0, 1]), {0: np.array([0, 0, 1, 1])}, {}, frozenset({1}))
    assert answers.of_class(0).values == pytest.approx({0: 2 / 3, 1: 0.5}), "a diverged seed is at chance"
    assert answers.of_class(1).values == {0: 1.0, 1: 0.5}
    assert answers.confusion() == pytest.approx(np.array([[2 / 3, 1 / 3], [0, 1]])), "and in no matrix"
    assert answers.wrong() == {}, "one model shows nothing that most have wrong"

    # five seeds that agree to an image say little of 20 images, of which 12 to 20 may be right
    predicted = {seed: np.array([0] * 16 + [1] * 4 + [1] * 30) for seed in range(5)}
    low, high = Answers(["a", "b"], np.array([0] * 20 + [1] * 30), predicted, {}, frozenset()).of_class(0).interval
    assert (low < 0.63, 0.92 < high <= 1) == (True, True)
    predicted = {seed: np.array([0, 0, 1]) for seed in range(3)}
    low, high = Answers(["a", "b", "c"], np.array([0, 0, 1]), predicted, {}, frozenset()).of_class(1).interval
    assert low < 1 == high, "one image: over seeds alone"
