"""The test images that most models of the best trial have wrong: small pictures with their answers."""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass
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
SIDE, QUALITY = 96, 75
"""The longer side of a small picture in pixels, and its quality as JPEG: 40 of them take at most 300 kB."""


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

    An image of a set without files is shown as runs have read it; the decoded images to test lie last.
    """
    from PIL import Image

    from trainables.data.upright_rgb import opened

    file = data.root(folder) / name
    there, content = bool(name) and file.is_file(), io.BytesIO()
    address = file.as_uri() if there else ""

    def draft() -> Image.Image:
        image = Image.open(file)
        image.draft(None, (2 * SIDE, 2 * SIDE))  # a JPEG of 12 megapixels then takes 20 ms and not 150
        return image

    try:
        if there:
            image = opened(name, draft)
        else:
            decoded = np.load(folder / "decoded" / f"{data.decoded_name}.npy", mmap_mode="r")
            image = Image.fromarray(decoded[len(decoded) - data.image_counts.test + place].transpose(1, 2, 0))
        image.thumbnail((SIDE, SIDE))
        image.save(content, "JPEG", quality=QUALITY)
    except (LocusError, OSError, ValueError, EOFError):  # it is damaged, or gone
        return "", address
    return f"data:image/jpeg;base64,{base64.b64encode(content.getvalue()).decode()}", address
