"""The test images that most models of the best trial have wrong: small pictures with their answers."""

from __future__ import annotations

import base64
import io
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from service.analysis.answers import Answers
from service.analysis.study_result import StudyResult
from trainables.data.folder_files import shown
from trainables.data.images import ImagesSpec
from trainables.spec import LocusError

if TYPE_CHECKING:
    from PIL import Image

MOST = 40
"""How many images are shown."""
SIDE, QUALITY, LARGE = 96, 75, 2_000_000
"""The longer side of a small picture in pixels, and its quality as JPEG: 40 of them take at most 300 kB. A file with
more pixels than the last number is not decoded for it."""


@dataclass(frozen=True)
class Picture:
    """An image as the page shows it. `source`: its small picture, `address`: its file; empty where they are gone."""

    name: str
    says: str
    source: str
    address: str


def gallery(result: StudyResult) -> list[Picture]:
    """Returns the images; none if no trial is best, its answers are not kept, or there are neither names nor images."""
    best = result.best
    answers = Answers.of(best) if best else None
    if best is None or answers is None or not isinstance(best.recipe.data, ImagesSpec):
        return []
    pictures = []
    for place, said in [*answers.wrong().items()][:MOST]:
        name = answers.names.get(place, "")
        source, address = _seen(best.recipe.data, best.data, place, name)
        words = next(iter(said)) if len(said) == 1 else ", ".join(f"{one} ({n})" for one, n in said.most_common())
        says = f"{answers.classes[answers.targets[place]]} → {words}, {said.total()} of {len(answers.predicted)}"
        pictures.append(Picture(shown(name), says, source, address))
    return pictures if any(picture.name or picture.source for picture in pictures) else []


def _seen(data: ImagesSpec, folder: Path, place: int, name: str) -> tuple[str, str]:
    """Returns the small picture and the file of a test image, empty where they are gone. `folder`: that of all data.

    An image without a file, or of a large one that would take seconds, is shown as runs have read it.
    """
    from PIL import Image

    from trainables.data.upright_rgb import opened

    file = data.root(folder) / name
    there = bool(name) and file.is_file()

    def draft() -> Image.Image:
        image = Image.open(file)
        image.draft(None, (2 * SIDE, 2 * SIDE))  # a JPEG then has a small size at once
        if image.width * image.height > LARGE:
            image.close()
            raise ValueError("too large")
        return image

    def decoded() -> Image.Image:
        images = np.load(folder / "decoded" / f"{data.decoded_name}.npy", mmap_mode="r")
        return Image.fromarray(images[len(images) - data.image_counts.test + place].transpose(1, 2, 0))  # they lie last

    content = io.BytesIO()
    for read in (partial(opened, name, draft), decoded)[not there :]:
        with suppress(LocusError, OSError, ValueError, EOFError):  # it is damaged, or gone
            image = read()
            image.thumbnail((SIDE, SIDE))
            image.save(content, "JPEG", quality=QUALITY)
            break
    source = base64.b64encode(content.getvalue()).decode()
    return f"data:image/jpeg;base64,{source}" if source else "", file.as_uri() if there else ""
