"""Makes an image of any of Pillow's modes an upright RGB image of 8 bits, or says why it cannot be one.

Pillow's own `convert("RGB")` cuts 16 bits at 255, shows what lies under transparent pixels, and leaves a photograph
lying on its side.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache

from PIL import Image, ImageOps, PngImagePlugin, TiffImagePlugin, UnidentifiedImageError

from trainables.spec import LocusError

EIGHT_BITS = (
    "1", "L", "LA", "La", "P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV",
)  # fmt: skip
"""Modes of 8 bits a channel (1 for "1"), which become RGB by Pillow's conversion."""

SIXTEEN_BITS = ("I;16", "I;16L", "I;16B", "I;16N")
"""Gray of 16 bits without a sign."""

GRAY_OF_INTEGERS = ("PNG", "PPM")
"""Formats of which Pillow opens gray of 16 bits as mode I in some versions; they hold no other integers."""

WHITE = 255


def refused(image: Image.Image) -> str:
    """Returns why an image cannot become RGB of 8 bits, empty if it can; the header of its file is enough to tell.

    Floats, integers of 32 bits and numbers with a sign are refused: nothing says which of them is white.
    """
    signed = isinstance(image, TiffImagePlugin.TiffImageFile) and _tag(image, 339, 1) not in (1, 4)
    if (image.mode in EIGHT_BITS or is_deep(image)) and not signed:
        return ""
    kind = "numbers with a sign" if signed and image.mode in EIGHT_BITS else f"Pillow's mode {image.mode}"
    return f"{kind}, of which nothing says what is white: save it with 8 or 16 bits without a sign"


def is_deep(image: Image.Image) -> bool:
    """Returns whether an image is gray of 16 bits, which are scaled to 8."""
    return image.mode in SIXTEEN_BITS or (image.mode == "I" and image.format in GRAY_OF_INTEGERS)


def rgb(image: Image.Image) -> Image.Image:
    """Returns an image in RGB of 8 bits: turned as its EXIF data say, 16 bits divided by 257, transparent pixels white.

    Raises: ValueError for an image that is refused; whatever Pillow raises for a damaged one.
    """
    if why := refused(image):
        raise ValueError(why)
    deep = is_deep(image)  # before it is loaded: the format is known of a file alone
    load(image)
    with suppress(Exception):  # EXIF data that cannot be read turn nothing; the pixels are turned before they are kept
        ImageOps.exif_transpose(image, in_place=True)
    if deep:
        if isinstance(image, TiffImagePlugin.TiffImageFile):
            table = _table(_tag(image, 258, 16), _tag(image, 262, 1) == 0, None)
        else:
            key = image.info.get("transparency")
            table = _table(16, False, key if isinstance(key, int) else None)
        return image.convert("I").point(table, "L").convert("RGB")
    if not image.has_transparency_data:
        return image.convert("RGB")
    straight = image.convert("LA") if image.mode == "La" else image
    white = Image.new("RGBA", image.size, (WHITE, WHITE, WHITE, WHITE))
    return Image.alpha_composite(white, straight.convert("RGBA")).convert("RGB")


def load(image: Image.Image) -> None:
    """Loads the pixels of an image that may be a file. Raises: whatever Pillow raises for a damaged one.

    Pillow turns a TIFF that lies on its side while it loads it. Where it knows the name of the file it maps raw pixels
    into memory with rows and columns already swapped, which scrambles them. It brings the pixels of a PNG to 8 bits,
    and the value that is transparent not: here it is brought, too.
    """
    if isinstance(image, PngImagePlugin.PngImageFile) and image.tile and "transparency" in image.info:
        key, raw = image.info["transparency"], image.tile[0][3]  # gray of 16 bits stays as it is
        if raw == "RGB;16B":
            key = tuple(value >> 8 for value in key)
        elif raw == "L;2":
            key *= 85
        elif raw == "L;4":
            key *= 17
        image.info["transparency"] = key
    if not isinstance(image, TiffImagePlugin.TiffImageFile):
        image.load()
        return
    name, image.filename = image.filename, ""
    try:
        image.load()
    finally:
        image.filename = name


def opened(name: str, image: Callable[[], Image.Image]) -> Image.Image:
    """Returns what `image` opens, in RGB of 8 bits. Raises: LocusError that names an image that cannot be read."""
    try:
        with image() as raw:
            return rgb(raw)
    except (LocusError, MemoryError):
        raise
    except Exception as error:  # Pillow's readers raise what they meet in a damaged file: struct.error, IndexError, ...
        raise LocusError(f"{name} must be an image that Pillow can read, got: {reason(error)}") from None


def reason(error: Exception) -> str:
    """Returns what an error says, or its name where it says nothing."""
    if isinstance(error, UnidentifiedImageError):
        return "Pillow does not know its format"  # Pillow's own words name an object of Python
    return " ".join(str(error).split()) or type(error).__name__


def _tag(image: TiffImagePlugin.TiffImageFile, number: int, usual: int) -> int:
    """Returns the number of a TIFF tag, the first where it has several."""
    value = image.tag_v2.get(number, usual)
    return int(value[0] if isinstance(value, tuple) else value)


@lru_cache(maxsize=16)
def _table(bits: int, is_inverted: bool, transparent: int | None) -> list[int]:
    """Returns the 8 bits of each value of 16. `bits`: so many are used; `transparent`: the value that is white."""
    top = 2**bits - 1
    table = [round(WHITE * min(value, top) / top) for value in range(2**16)]
    if is_inverted:
        table = [WHITE - value for value in table]
    if transparent is not None:
        table[transparent] = WHITE
    return table
