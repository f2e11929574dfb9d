"""What the files of a folder hold: a digest of each, what its header tells of the image, and whether it is damaged.

Files are read once: what was found is kept in the user's cache folder, by path, size, times and inode. Nothing is
written beside the images; a cache that cannot be written or read costs time, and is no error.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

from trainables.cgroup import cores
from trainables.data.folder_files import ImageFile, Seen, seen
from trainables.kept import keep, kept
from trainables.source import fingerprint as code_fingerprint
from trainables.spec import digest
from trainables.watched import looking

SETTLED_NS = 2 * 10**9
"""A file is kept in the cache where its last change is so long ago: a later one then has another time everywhere."""
DECODED_BYTES = 2**29
"""Folders of up to so many bytes are decoded when they are first read, so that a plan names damaged images: 10 s."""


class Content(NamedTuple):
    """What a file holds. `flaw`: why it is no image that can be read; empty if it is one.

    `is_deep`: gray of 16 bits; `has_alpha`: pixels may be transparent; `pages`: there are several pages or frames;
    `side`: the shorter one, in pixels.
    """

    digest: str
    flaw: str
    is_deep: bool
    has_alpha: bool
    pages: bool
    side: int


def contents(root: str, files: Iterable[ImageFile]) -> dict[str, Content]:
    """Returns what each file holds, by its whole path. Files that cannot be opened have a flaw and no digest.

    If all are large together, they are not decoded, and a flaw is what a header tells.
    Cost: the time to decode it; 40 us for the header of a small file; 3 us where it is in the cache.
    """
    files = list(files)
    sources = [Path(__file__).with_name(name) for name in ("upright_rgb.py", "folder_contents.py")]
    code = [code_fingerprint(source.read_text(encoding="utf-8"), source.name) for source in sources]
    name, mark = f"folders/{digest(os.fsencode(root).hex())}.json", digest([code, version("pillow")], 64)
    entries = {path: (Seen(*times), Content(*content)) for path, (times, content) in (kept(name, mark) or {}).items()}
    read_one = partial(_read, whole=sum(file.seen.size for file in files) <= DECODED_BYTES)
    held, unread = {}, []
    for file in files:
        entry = entries.get(file.at)
        if entry is not None and entry[0] == file.seen:
            held[file.at] = entry[1]
        else:
            unread.append(file)
    read = [*zip(unread, _all_read(read_one, unread), strict=True)]
    held |= {file.at: content for file, content in read}
    settled = time.time_ns() - SETTLED_NS
    new = {
        file.at: (file.seen, content)
        for file, content in read
        if content.digest and max(file.seen.mtime, file.seen.ctime) < settled
    }
    if new:
        keep(name, mark, {path: entry for path, entry in (entries | new).items() if path in held})
    return held


def _all_read(read_one: Callable[[ImageFile], Content], files: list[ImageFile]) -> Iterator[Content]:
    """Yields what each file holds, read in threads. Who waits is told how many are read; Ctrl-C ends it at once."""
    pool, look = ThreadPoolExecutor(cores()), looking()
    try:
        for number, content in enumerate(pool.map(read_one, files), 1):
            look(number, len(files))
            yield content
    finally:
        pool.shutdown(cancel_futures=True)


def _read(file: ImageFile, whole: bool) -> Content:
    """Returns what a file holds; of an image that is not `whole` the pixels are not looked at."""
    from PIL import Image

    from trainables.data.upright_rgb import is_deep, reason, refused, rgb

    try:
        with open(file.at, "rb") as opened:
            text = hashlib.file_digest(opened, "sha256").hexdigest()
            opened.seek(0)
            try:
                with Image.open(opened) as image:
                    pages = getattr(image, "n_frames", 1) > 1
                    alpha, side = image.has_transparency_data, min(image.size)
                    content = Content(text, refused(image), is_deep(image), alpha, pages, side)
                    if whole and not content.flaw:
                        rgb(image)
            except Exception as error:  # Pillow's readers raise what they meet in a damaged file
                content = Content(text, reason(error), False, False, False, 0)
            changed = seen(os.fstat(opened.fileno())) != file.seen
    except OSError as error:
        return Content("", error.strerror or str(error), False, False, False, 0)
    return Content("", "it is being changed", False, False, False, 0) if changed else content
