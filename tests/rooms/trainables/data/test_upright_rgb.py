"""Images of all of Pillow's modes become upright RGB images of 8 bits, or are refused by name."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from trainables.data import Cifar10
from trainables.data.upright_rgb import EIGHT_BITS, SIXTEEN_BITS, opened, refused, rgb
from trainables.spec import LocusError
from trainables.training.pictures import pixels

RAMP = np.tile(np.linspace(0, 65535, 16).astype(np.uint16), (2, 1))
STEPS = [*range(0, 256, 17)]


def again(image, format, **options):
    """The image as it is read from a file of a format."""
    file = io.BytesIO()
    image.save(file, format, **options)
    file.seek(0)
    return Image.open(file)


def gray(image):
    return np.asarray(rgb(image))[0].mean(axis=-1).tolist()


def test_every_mode_is_decided():
    assert {*EIGHT_BITS, *SIXTEEN_BITS, "I", "F"} == {*Image.MODES}
    for mode in Image.MODES:
        if mode in ("I", "F"):
            assert f"Pillow's mode {mode}, of which nothing says what is white" in refused(Image.new(mode, (2, 2)))
        else:
            assert rgb(Image.new(mode, (3, 2))).mode == "RGB"


def test_sixteen_bits_are_divided_by_257():
    every = np.arange(2**16, dtype=np.uint16).reshape(256, 256)
    pixels = np.asarray(rgb(Image.fromarray(every)))
    assert (pixels == np.round(every / 257)[..., None]).all()
    for format in ("png", "tiff", "ppm"):
        assert gray(again(Image.fromarray(RAMP), format)) == STEPS, format
    big_endian = Image.new("I;16B", (2, 2))
    big_endian.putpixel((1, 0), 65535)
    assert gray(big_endian) == [0, 255]


def test_tags_say_what_is_white():
    image = Image.fromarray(RAMP)
    assert gray(again(image, "tiff", tiffinfo={262: 0})) == STEPS[::-1], "white is zero, as in X-rays"
    assert gray(again(image, "png", transparency=int(RAMP[0, 1]))) == [0, 255, *STEPS[2:]]
    twelve = again(Image.fromarray(RAMP // 16), "tiff")
    twelve.tag_v2[258] = (12,)
    assert gray(twelve) == [round(value // 16 * 255 / 4095) for value in RAMP[0].tolist()]


def test_floats_and_large_or_signed_integers_are_refused_by_name():
    for image, kind in (
        (Image.fromarray((RAMP / 65535).astype(np.float32)), "Pillow's mode F"),
        (Image.fromarray(RAMP.astype(np.int32)), "Pillow's mode I"),
    ):
        with pytest.raises(LocusError, match=f"^x.tif must be an image that Pillow can read, got: {kind}, of which"):
            opened("x.tif", lambda image=image: again(image, "tiff"))
    with pytest.raises(LocusError, match="got: numbers with a sign, of which"):
        opened("x.tif", lambda: again(Image.new("L", (2, 2)), "tiff", tiffinfo={339: 2}))


def test_transparent_pixels_become_white():
    hidden = Image.new("RGBA", (2, 2), (9, 9, 9, 0))
    hidden.putpixel((1, 0), (9, 9, 9, 255))
    half = Image.new("LA", (2, 2), (0, 128))
    indexed = Image.new("P", (2, 2), 3)
    indexed.putpalette([*range(30)])
    keyed = {"L": (5, (5, 5, 5)), "RGB": ((3, 4, 5), (3, 4, 5)), "1": (0, (0, 0, 0))}
    for format in ("png", "tiff", "webp", "gif"):
        lossless = {"lossless": True, "exact": True} if format == "webp" else {}
        image = rgb(again(hidden, format, **lossless))
        assert image.getpixel((0, 0)) == (255, 255, 255), format
        assert image.getpixel((1, 0)) == (9, 9, 9), format
    assert rgb(half).getpixel((0, 0)) == (127, 127, 127)
    assert rgb(again(indexed, "png", transparency=3)).getpixel((0, 0)) == (255, 255, 255)
    assert rgb(again(indexed, "png", transparency=2)).getpixel((0, 0)) == (9, 10, 11)
    assert rgb(again(indexed, "png", transparency=b"\xff\xff\xff\x00")).getpixel((0, 0)) == (255, 255, 255)
    for mode, (key, seen) in keyed.items():
        image = Image.new(mode, (2, 2), key)
        assert rgb(again(image, "png")).getpixel((0, 0)) == seen
        assert rgb(again(image, "png", transparency=key)).getpixel((0, 0)) == (255, 255, 255), mode


def png(bits, color, rows, key):
    """A PNG of one row as an encoder with its own bit depths writes it, which Pillow does not."""
    row = np.packbits(np.array([[value >> bit & 1 for bit in reversed(range(bits))] for value in rows])).tobytes()
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", len(rows) // len(key), 1, bits, color, 0, 0, 0)),
        (b"tRNS", struct.pack(f">{len(key)}H", *key)),
        (b"IDAT", zlib.compress(b"\0" + row)),
        (b"IEND", b""),
    ]
    lengths = [(struct.pack(">I", len(data)), kind + data) for kind, data in chunks]
    text = b"".join(length + both + struct.pack(">I", zlib.crc32(both)) for length, both in lengths)
    return Image.open(io.BytesIO(b"\x89PNG\r\n\x1a\n" + text))


@pytest.mark.parametrize(
    ("bits", "color", "row", "key", "expected"),
    [
        (1, 0, [1, 0, 1, 0, 1, 0, 1, 0], [0], [255] * 8),
        (2, 0, [0, 1, 2, 3], [1], [0, 255, 170, 255]),
        (4, 0, [0, 2, 1, 15], [2], [0, 255, 17, 255]),
        (8, 0, [0, 2, 1, 15], [2], [0, 255, 1, 15]),
        (16, 0, [0, 514, 257, 770], [514], [0, 255, 1, 3]),
        (8, 2, [10, 20, 30, 9, 9, 9], [10, 20, 30], [255, 9]),
        (16, 2, [300, 600, 900, 2313, 2313, 2313], [300, 600, 900], [255, 9]),
    ],
)
@pytest.mark.filterwarnings("ignore:The given NumPy array is not writable")  # of one pixel
def test_a_transparent_value_of_a_png_is_of_its_own_bits(bits, color, row, key, expected):
    """The pixel at the center is transparent."""
    assert gray(png(bits, color, row, key)) == expected
    image = png(bits, color, row, key)
    for time in ("first", "second"):  # a person's own image stays loaded
        assert (pixels("x", image, Cifar10(image_size=1)) == 255).all(), time


def lying(upright, orientation):
    """An image that lies as its EXIF data say, and these data."""
    back = [None, None, "FLIP_LEFT_RIGHT", "ROTATE_180", "FLIP_TOP_BOTTOM", "TRANSPOSE", "ROTATE_90", "TRANSVERSE",
            "ROTATE_270"][orientation]  # fmt: skip
    exif = Image.Exif()
    exif[0x0112] = orientation
    return (upright if back is None else upright.transpose(Image.Transpose[back])), exif


@pytest.mark.filterwarnings("ignore:Corrupt EXIF data")
def test_photographs_are_turned_as_their_exif_data_say():
    upright = Image.fromarray(np.arange(24, dtype=np.uint8).reshape(4, 6) * 10).convert("RGB")
    for orientation in range(2, 9):
        image, exif = lying(upright, orientation)
        for format in ("png", "tiff"):
            assert (np.asarray(rgb(again(image, format, exif=exif))) == np.asarray(upright)).all(), orientation
        near = np.asarray(rgb(again(image, "jpeg", exif=exif, quality=100, subsampling=0))).astype(int)
        assert abs(near - np.asarray(upright)).max() < 9, orientation
    assert (np.asarray(ImageOps.exif_transpose(upright)) == np.asarray(rgb(upright))).all()
    broken = again(upright, "png", exif=b"Exif\x00\x00MM\x00*\x00\x00\x00\x08\x00\x05torn")
    assert (np.asarray(rgb(broken)) == np.asarray(upright)).all()


@pytest.mark.parametrize("mode", ["L", "I;16", "P", "RGB", "RGBA", "CMYK"])
@pytest.mark.parametrize("compression", [None, "tiff_lzw"])
def test_a_tiff_is_turned_also_where_it_is_opened_by_its_path(tmp_path, mode, compression):
    values = np.arange(24, dtype=np.uint8).reshape(4, 6) * 10
    eight = Image.fromarray(values)
    kept = Image.fromarray(values.astype(np.uint16) * 257) if mode == "I;16" else eight.convert("RGB").convert(mode)
    expected = np.asarray(rgb(kept))
    for orientation in range(1, 9):
        path = tmp_path / f"{orientation}.tif"
        image, exif = lying(kept, orientation)
        image.save(path, exif=exif, compression=compression)
        for given in (path, str(path)):
            with Image.open(given) as opened_by_path:
                assert np.array_equal(rgb(opened_by_path), expected), orientation
                assert opened_by_path.filename == str(path), "the caller's image keeps the name of its file"


ODD = (EOFError(), struct.error("unpack"), zlib.error("torn"), IndexError(), SyntaxError("broken"), RecursionError())


@pytest.mark.parametrize("error", ODD, ids=lambda error: type(error).__name__)
def test_whatever_pillow_raises_names_the_file(error):
    def image():
        raise error

    reason = str(error) or type(error).__name__
    with pytest.raises(LocusError, match=f"^a/b.png must be an image that Pillow can read, got: {reason}$"):
        opened("a/b.png", image)


def test_the_file_of_an_animation_is_closed(tmp_path):
    frames = [Image.new("RGB", (4, 4), color) for color in ("red", "green", "blue")]
    frames[0].save(tmp_path / "x.gif", save_all=True, append_images=frames[1:])
    seen = []

    def image():
        seen.append(Image.open(tmp_path / "x.gif"))
        assert seen[0].is_animated
        return seen[0]

    assert opened("x.gif", image).size == (4, 4)
    with pytest.raises(ValueError, match="closed image"):
        seen[0].seek(1)
