"""A study of a folder of photographs, trained for real without Ray: small files of kinds that a folder may hold."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from PIL import Image

from search_spaces.study import Ablation, Study
from service.storage.facts import Ended
from service.storage.home import Home
from service.storage.outcomes import Answered
from tests.rooms.by_hand import ENVIRONMENT, ByHand
from trainables.backbones import ViT
from trainables.data import Folder, MeanStd
from trainables.encodings import Fourier
from trainables.launch.work_files import WEIGHTS
from trainables.recipe import AdamW, Recipe, Run
from trainables.recipe.outcome import Completed
from trainables.training.loop import train

CLASSES = ("cat", "dog", "owl")
SIDE = 16
ORIENTATION = 0x0112


def photographs(root: Path, splits: dict[str, int]) -> Path:
    """A bright spot in noise: above the middle for cats, below it for dogs, both for owls; no file is square."""
    noise = np.random.default_rng(5)
    for split, count in splits.items():
        for label, name in enumerate(CLASSES):
            (root / split / name).mkdir(parents=True)
            for number in range(count):
                values = noise.integers(0, 170, (24, 20, 3))
                values[2:11, 3:17] += 85 * (label != 1)
                values[13:22, 3:17] += 85 * (label != 0)
                save(values.astype(np.uint8), root / split / name / f"{number:02d}", number)
    return root


def save(values: np.ndarray, path: Path, number: int) -> None:
    """Writes pixels in one of five ways: PNG, JPEG lying on its side, half transparent, gray of 16 bits, palette."""
    image = Image.fromarray(values)
    if number % 5 == 1:
        exif = Image.Exif()
        exif[ORIENTATION] = 6  # turned clockwise to be seen
        image.rotate(90, expand=True).save(path.with_suffix(".jpg"), exif=exif, quality=95)
        return
    if number % 5 == 2:
        image.putalpha(Image.linear_gradient("L").resize(image.size))
    if number % 5 == 3:
        image = Image.fromarray(values.mean(axis=2).astype(np.uint16) * 257)
    if number % 5 == 4:
        image = image.quantize(64)
    image.save(path.with_suffix(".png"))


def recipe(root: Path) -> Recipe:
    """How the photographs in a folder are trained."""
    data = Folder(path=str(root), image_size=SIDE, normalize=MeanStd(mean=(0.5, 0.4, 0.6), std=(0.2, 0.3, 0.25)))
    model = ViT(embed_dim=16, num_heads=2, patch_size=4, pool="avg")
    return Recipe(
        data=data, model=model, encoding=Fourier(gamma=2.0), optimizer=AdamW(epochs=8, batch_size=12, lr=0.01)
    )


def trained(root: Path, **values: float) -> Home:
    """A home with the study `pets`: two arms of two seeds, with all that a driver keeps of them.

    `values`: of the optimizer.
    """
    folder = photographs(root / "pets", {"train": 20, "val": 10, "test": 15})
    arms = {"far": {}, "near": {"encoding.gamma": 0.5}}
    base = recipe(folder).put({f"optimizer.{name}": value for name, value in values.items()})
    return home_of(root / "home", Study(name="pets", question="?", base=base, plan=Ablation(arms, "near"), seeds=2))


def home_of(root: Path, study: Study) -> Home:
    """A home with a study, each run of its arms trained here, with all that a driver keeps of them."""
    assert isinstance(study.plan, Ablation)
    with ByHand(root, study.at(), seeds=study.seeds) as hand:
        for number, (name, values) in enumerate(study.plan.arms.items()):
            trial = hand.plan("trial", number, values, name)
            for seed in range(study.seeds):
                run, code = Run(recipe=trial.recipe, seed=seed), hand.codes(trial.recipe)
                with TemporaryDirectory() as work:
                    curve = [*train(run, Path(work), data=hand.home.data)]
                    known = hand._tell(trial, seed, curve)
                    answer = Completed(curve=tuple(curve))
                    answered = Answered(run=run, code=code, outcome=answer, environment=ENVIRONMENT)
                    hand.outcomes.put(answered, Path(work) / WEIGHTS)
                hand.journal.write(Ended(**known, outcome="completed", epoch=len(curve)))
    return hand.home
