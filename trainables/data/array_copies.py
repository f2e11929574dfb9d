"""Images that a file of arrays has more than once: a model that was trained on one knows the other by heart."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from trainables.data.arrays import Arrays, digest_of, read
from trainables.kept import keep, kept
from trainables.source import fingerprint
from trainables.spec import SpecError


def copies(data: object) -> list[str]:
    """Returns how many images of a file of arrays are copies of others, a sentence; none for other images.

    What was found is kept in the user's cache folder. Cost: a second for 1 GiB.
    """
    if not isinstance(data, Arrays):
        return []
    name, mark = f"arrays/{data.digest}.json", fingerprint(Path(__file__).read_text(encoding="utf-8"), __file__)
    found: list[str] | None = kept(name, mark)
    if found is None:
        found = [*_found(data)]
        keep(name, mark, found)
    return found


def _found(data: Arrays) -> Iterator[str]:
    try:
        images, labels = read(data.path)
    except SpecError:  # the file is gone; the runs say so
        return
    if digest_of(images, labels) != data.digest:
        return
    alike: dict[bytes, list[int]] = {}
    for number, image in enumerate(images):
        alike.setdefault(hashlib.sha256(image.data).digest(), []).append(number)
    groups = [group for group in alike.values() if len(group) > 1]
    of_classes = [group for group in groups if len({*labels[group].tolist()}) > 1]
    if chosen := of_classes or groups:
        images_found = "1 image found" if len(chosen) == 1 else f"{len(chosen):,} images found"
        once = "more than once (one may be trained, and another scored)"
        first, second = chosen[0][:2]
        yield f"{images_found} {'in more than one class' if of_classes else once}, such as {first} and {second}"
