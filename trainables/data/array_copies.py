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

    The sentences are kept in the user's cache folder. Cost: a second for 1 GiB.
    """
    if not isinstance(data, Arrays):
        return []
    name, mark = f"arrays/{data.digest}.json", fingerprint(Path(__file__).read_text(encoding="utf-8"), __file__)
    sentences: list[str] | None = kept(name, mark)
    if sentences is None:
        sentences = [*_look_for_copies(data)]
        keep(name, mark, sentences)
    return sentences


def _look_for_copies(data: Arrays) -> Iterator[str]:
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
        count = "1 image" if len(chosen) == 1 else f"{len(chosen):,} images"
        how = "in more than one class" if of_classes else "more than once (one may be trained, and another scored)"
        yield f"{count} found {how}, such as {chosen[0][0]} and {chosen[0][1]}"
