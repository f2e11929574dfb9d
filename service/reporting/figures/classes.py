"""Draws which classes the best trial's models confuse, and picks the test images that most of them have wrong."""

from __future__ import annotations

import base64
import io
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from search_spaces.words import quoted
from service.analysis.format import TRIAL_COLORS
from service.analysis.statistics import Scale, Scores
from service.analysis.study_result import StudyResult
from service.reporting.figures import plot
from service.reporting.figures.rows import name
from trainables.data.folder_files import shown
from trainables.data.images import ImagesSpec
from trainables.recipe.findings import RIGHT_IMAGES
from trainables.spec import LocusError

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from PIL import Image

    from service.analysis.trial_result import TrialResult

MOST, WRITTEN = 20, 8
"""At most `MOST` classes have a row: those with the lowest accuracy. With up to `WRITTEN` classes, each cell has its
share as a number."""
ROW_IN, LETTERS = 0.27, 18
"""The height of a row in inches, and the number of letters of a class's name that are shown."""
RIGHT, WRONG = TRIAL_COLORS[:2]
MOST_IMAGES, SIDE, QUALITY, LARGE = 40, 96, 75, 2_000_000
"""The most images that are shown; the longer side of each small picture in pixels; and its quality as JPEG: 40 of them
take at most 300 kB. A file of more than `LARGE` pixels is not decoded for its small picture."""
CLASSES = (
    "A row is the test images of a class, and the {} models of {}. Left: the share that they take for the class of the "
    "column; blue is right. Right: the accuracy, with its 95 % interval for this class alone. A seed that diverged is "
    f"at chance on the right, not on the left. Of many classes the {MOST} with the lowest accuracy are shown."
)


@dataclass(frozen=True)
class Answers:
    """Holds which class each model of a trial answers for each test image.

    `classes` are the names of the classes. `targets` has the right class of each image, and `predicted`, by seed, the
    answers of that seed's model: class numbers. Shapes: (N,) each. `names` has, by an image's place, the file names of
    images that a model has wrong. `diverged` are the seeds without a model, which count at chance.
    """

    classes: list[str]
    targets: NDArray[Any]
    predicted: Mapping[int, NDArray[Any]]
    names: Mapping[int, str]
    diverged: frozenset[int]

    @classmethod
    def of(cls, row: TrialResult) -> Answers | None:
        """Returns the stored answers of a trial; None if a seed has none, such as one that older code looked at."""
        looks = {seed: run.kept(RIGHT_IMAGES) for seed, run in row.probes.items()}
        seeds = {seed: look.after.arrays for seed, look in looks.items() if look and "predicted" in look.after.arrays}
        if not seeds or {*seeds} | row.test.diverged != {*row.test.values}:
            return None
        names: dict[int, str] = {}
        for arrays in seeds.values():
            names |= zip(np.flatnonzero(~arrays["right"]).tolist(), map(str, arrays.get("wrong", ())), strict=False)
        predicted = {seed: arrays["predicted"] for seed, arrays in sorted(seeds.items())}
        return cls([*map(str, arrays["classes"])], arrays["targets"], predicted, names, row.test.diverged)

    def of_class(self, number: int) -> Scores:
        """Returns the accuracy on the test images of one class, by seed. Its interval holds for other such images, too.

        The interval is not cut at chance, because a model that guesses may never answer this class. `number` is the
        number of the class.
        """
        mine = self.targets == number
        right = {seed: (predicted[mine] == number).astype(float) for seed, predicted in self.predicted.items()}
        right |= {seed: np.full(mine.sum(), 1 / len(self.classes)) for seed in self.diverged}
        values = {seed: float(array.mean()) for seed, array in right.items()}
        several = right if mine.sum() > 1 else {}
        return Scores(values, len(values), Scale(0.0, 0.0, 1.0, 1 / int(mine.sum())), self.diverged, right=several)

    def confusion(self) -> NDArray[np.float64]:
        """Returns the share of each class's images (row) that all models together take for each class (column).

        Shapes: (K, K) for K classes.
        """
        counts = np.zeros((len(self.classes), len(self.classes)))
        for predicted in self.predicted.values():
            np.add.at(counts, (self.targets, predicted), 1)
        shares: NDArray[np.float64] = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
        return shares

    def wrong(self) -> dict[int, Counter[str]]:
        """Returns, by the place of each image that more than half of the models have wrong, the wrong answers' counts.

        First come the images that most models have wrong; of these, those that most models take for the same class.
        With fewer than two models the result is empty.
        """
        answers = np.stack([*self.predicted.values()])
        mostly_wrong = 2 * (answers != self.targets).sum(axis=0) > len(answers)
        wrong = {
            image: Counter(self.classes[number] for number in answers[:, image] if number != self.targets[image])
            for image in (np.flatnonzero(mostly_wrong).tolist() if len(answers) > 1 else [])
        }
        return dict(sorted(wrong.items(), key=lambda item: (-item[1].total(), -max(item[1].values()))))


def by_class(result: StudyResult) -> plot.Plot | None:
    """Returns the figure of the best trial's classes; None if no trial is best, or its answers are not stored."""
    best = result.best
    answers = Answers.of(best) if best else None
    if best is None or answers is None:
        return None
    tested = sorted(np.unique(answers.targets).tolist(), key=lambda number: -(answers.of_class(number).mean or 0.0))
    caption = CLASSES.format(len(answers.predicted), quoted(name(result, best)))
    return plot.Plot("classes", caption, lambda: _draw(answers, tested[-MOST:]))


def _draw(answers: Answers, classes: list[int]) -> Figure:
    """Draws the shares of confused classes on the left, and the accuracy on each class on the right."""
    fig = plot.empty_figure(1.1 + ROW_IN * len(classes))
    matrix, accuracy = fig.subplots(1, 2, sharey=True, width_ratios=(3, 2))
    for axes in (matrix, accuracy):
        plot.quiet(axes)
        axes.grid(visible=False)
        axes.spines[["left", "bottom"]].set_visible(False)

    for (row, column), share in np.ndenumerate(answers.confusion()[np.ix_(classes, classes)]):
        color = RIGHT if row == column else WRONG
        matrix.add_patch(Rectangle((column - 0.5, row - 0.5), 1, 1, facecolor=color, alpha=0.75 * share, linewidth=0))
        if len(classes) <= WRITTEN:
            matrix.text(column, row, f"{share:.2f}", ha="center", va="center", color=plot.INK, fontsize=8)
    names = [answers.classes[number][:LETTERS] for number in classes]
    upright = len(names) > WRITTEN or max(map(len, names)) > 8
    matrix.set_xlim(-0.5, len(names) - 0.5)
    matrix.set_yticks(range(len(names)), names, color=plot.INK)
    matrix.set_xticks(range(len(names)), names, rotation=90 if upright else 0, color=plot.INK)
    matrix.xaxis.tick_top()
    matrix.tick_params(length=0)

    for y, number in enumerate(classes):
        scores = answers.of_class(number)
        if scores.interval:
            accuracy.plot(scores.interval, [y, y], color=RIGHT, linewidth=2.2, alpha=0.6, solid_capstyle="butt")
        accuracy.plot([scores.mean], [y], marker="o", color=RIGHT, markersize=6, zorder=4)
    accuracy.grid(axis="x", color=plot.FAINT, linewidth=0.6)
    accuracy.set(xlim=(-0.02, 1.02), ylim=(len(classes) - 0.5, -0.5), xlabel="accuracy on the class")
    return fig


@dataclass(frozen=True)
class Picture:
    """Is an image as the page shows it.

    `name` is its file name, and `says` its right class and the wrong answers. `source` is its small picture and
    `address` that of its file, both as URLs; they are empty where picture or file is gone.
    """

    name: str
    says: str
    source: str
    address: str


def gallery(result: StudyResult) -> list[Picture]:
    """Returns the images that most of the best trial's models have wrong.

    There are none if no trial is best, its answers are not stored, or the images have neither names nor pictures.
    """
    best = result.best
    answers = Answers.of(best) if best else None
    if best is None or answers is None or not isinstance(best.recipe.data, ImagesSpec):
        return []
    pictures = []
    for number, counts in [*answers.wrong().items()][:MOST_IMAGES]:
        file = answers.names.get(number, "")
        source, address = _seen(best.recipe.data, best.data, number, file)
        text = ", ".join(f"{label} ({count})" for label, count in counts.most_common())
        text = next(iter(counts)) if len(counts) == 1 else text
        says = f"{answers.classes[answers.targets[number]]} → {text}, {counts.total()} of {len(answers.predicted)}"
        pictures.append(Picture(shown(file), says, source, address))
    return pictures if any(picture.name or picture.source for picture in pictures) else []


def _seen(data: ImagesSpec, folder: Path, number: int, name: str) -> tuple[str, str]:
    """Returns the URLs of a test image's small picture and of its file; each is empty where picture or file is gone.

    `folder` is the folder of all data sets. If an image has no file, or a large one whose reading would take seconds,
    its picture is made from the decoded image that runs have read.
    """
    from PIL import Image

    from trainables.data.upright_rgb import opened

    file = data.root(folder) / name
    exists = bool(name) and file.is_file()

    def draft() -> Image.Image:
        image = Image.open(file)
        image.draft(None, (2 * SIDE, 2 * SIDE))  # a JPEG then has a small size at once
        if image.width * image.height > LARGE:
            image.close()
            raise ValueError("too large")
        return image

    def decoded() -> Image.Image:
        images = np.load(folder / "decoded" / f"{data.decoded_name}.npy", mmap_mode="r")
        return Image.fromarray(
            images[len(images) - data.image_counts.test + number].transpose(1, 2, 0)
        )  # they lie last

    content = io.BytesIO()
    for read in (partial(opened, name, draft), decoded)[not exists :]:
        with suppress(LocusError, OSError, ValueError, EOFError):  # it is damaged, or gone
            image = read()
            image.thumbnail((SIDE, SIDE))
            image.save(content, "JPEG", quality=QUALITY)
            break
    source = base64.b64encode(content.getvalue()).decode()
    return f"data:image/jpeg;base64,{source}" if source else "", file.as_uri() if exists else ""
