"""Images that are streamed by processes, and images of all of Pillow's modes, which become upright RGB."""

import contextlib
import io
import itertools
import multiprocessing
import os
import pickle
import shutil
import struct
import zlib
from multiprocessing.reduction import ForkingPickler
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from PIL import Image, ImageOps
from torch.utils.data import get_worker_info

from tests.full_disk import files_of_at_most
from tests.rooms.trainables.data import pictures
from tests.rooms.trainables.data.pictures import image_folder, picture
from trainables.backbones import ViT
from trainables.data import Cifar10, Folder, folder_contents, images, streamed_torch
from trainables.data.augment import DeiT
from trainables.data.augment_torch import Augmentation
from trainables.data.images_torch import Records
from trainables.data.splits_torch import Reading, Workers, load
from trainables.data.streamed_torch import StreamedSplit, part_size
from trainables.data.upright_rgb import EIGHT_BITS, SIXTEEN_BITS, opened, refused, rgb
from trainables.recipe import AdamW, Recipe, Run
from trainables.spec import LocusError
from trainables.training.loop import train
from trainables.training.pictures import pixels


@pytest.fixture
def spec(tmp_path):
    return Folder(path=str(image_folder(tmp_path / "set", {"train": 12, "test": 4})), image_size=6)


def batches(split, epoch=1):
    """Three batches of the split's images, the last one smaller."""
    numbers = torch.split(torch.randperm(len(split), generator=torch.Generator().manual_seed(epoch)), 12)
    return list(split.batches(numbers, torch.float32, epoch, [torch.zeros_like(some) for some in numbers]))


def same(one, other):
    pairs = [pair for both in zip(one, other, strict=True) for pair in zip(*both, strict=True)]
    return all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_a_large_set_is_streamed_and_has_the_very_images(spec, tmp_path, monkeypatch):
    """Where half of the free disk does not hold it, decoded."""
    resident = load(spec, Reading(tmp_path / "data"))
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2 * spec.decoded_bytes - 1))
    streamed = load(spec, Reading(tmp_path / "other"))
    assert not (tmp_path / "other").exists()
    for name in ("train", "validation", "test"):
        one, other = getattr(resident, name), getattr(streamed, name)
        assert isinstance(other, StreamedSplit)
        assert torch.equal(one.targets, other.targets)
        assert same(batches(one), batches(other))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_large_set_is_decoded_once_where_the_disk_has_room(spec, tmp_path, monkeypatch, workers):
    """And is read from the file batch by batch, with the very images; the pictures are not opened again."""
    resident = load(spec, Reading(tmp_path / "data"))
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=2 * spec.decoded_bytes))
    first = load(spec, Reading(tmp_path / "other"))
    monkeypatch.setattr(shutil, "disk_usage", lambda path: SimpleNamespace(free=0))
    monkeypatch.delattr(Records, "opened")
    with contextlib.closing(Workers(workers)) as processes:
        again = load(spec, Reading(tmp_path / "other", workers=processes))
        for name in ("train", "validation", "test"):
            assert isinstance(getattr(again, name), StreamedSplit)
            for split in (getattr(first, name), getattr(again, name)):
                assert torch.equal(split.targets, getattr(resident, name).targets)
                assert same(batches(split), batches(getattr(resident, name)))


@contextlib.contextmanager
def augmented(spec, workers):
    """The splits, with so many processes, which end."""
    augmentation = Augmentation(DeiT(), 0, 36, 3)
    with contextlib.closing(Workers(workers)) as processes:
        yield load(spec, Reading(change=augmentation.change, workers=processes))


def test_processes_change_no_batch(spec):
    with augmented(spec, 0) as alone:
        assert isinstance(alone.train, StreamedSplit)
        assert not isinstance(alone.test, StreamedSplit)
        first, second = batches(alone.train, 1), batches(alone.train, 2)
    assert not same(first, second)
    for workers in (2, 3):
        with augmented(spec, workers) as many:
            assert same(batches(many.train, 1), first)
            assert same(batches(many.train, 2), second)
            assert same(batches(many.train, 1), first)


def seen(spec, workers):
    """All that a run sees of its three splits, one after another, and how many processes it has then."""
    with augmented(spec, workers) as splits:
        epochs = [batches(split) for split in (splits.train, splits.validation, splits.test, splits.train)]
        return epochs, len(multiprocessing.active_children())


@pytest.mark.slow
@pytest.mark.parametrize(("method", "workers"), [("spawn", 2), ("forkserver", 3)])
def test_processes_may_start_in_each_way(spec, monkeypatch, method, workers):
    """macOS spawns them, Python 3.14 asks a server to fork them: neither inherits what cannot be pickled."""
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    alone, _ = seen(spec, 0)
    usual = multiprocessing.get_start_method()
    multiprocessing.set_start_method(method, force=True)
    try:
        many, count = seen(spec, workers)
    finally:
        multiprocessing.set_start_method(usual, force=True)
    assert count == workers
    assert all(same(one, other) for one, other in zip(alone, many, strict=True))


def test_three_splits_share_one_pool_which_ends(spec, monkeypatch):
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    assert seen(spec, 2)[1] == 2
    assert multiprocessing.active_children() == []
    with augmented(spec, 2) as splits:
        halfway = splits.train.batches(torch.split(torch.arange(36), 6), torch.float32)
        next(halfway)
        expected, _ = seen(spec, 0)
        assert same(batches(splits.validation), expected[1]), "what the other split has asked for is left out"
        with pytest.raises(AssertionError, match="must be taken before"):
            list(halfway)


def test_a_run_that_fails_leaves_no_process(tmp_path, monkeypatch):
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    monkeypatch.setattr(folder_contents, "DECODED_BYTES", 100)
    root = image_folder(tmp_path / "set", {"train": 12, "test": 4})
    path = root / "train" / "class_1" / "0015.png"
    path.write_bytes(path.read_bytes()[:50])  # the header alone
    model = ViT(embed_dim=8, num_heads=2, patch_size=2)
    recipe = Recipe(data=Folder(path=str(root), image_size=6), model=model, optimizer=AdamW(epochs=1, batch_size=6))
    with pytest.raises(LocusError, match=str(path)) as caught:
        list(train(Run(recipe, 0), tmp_path, loader_workers=2))
    assert caught.tb is not None, "which holds on to all that the run had"
    assert multiprocessing.active_children() == []


def test_what_waits_in_shared_memory_is_bounded(monkeypatch):
    """Batches of 1024 images of 224 x 224 would be 147 MiB each; in a container 64 MiB may be all that there is."""
    for shared, workers, side in itertools.product((streamed_torch.SHARED_BYTES, 16 * 2**20), (1, 15, 63), (32, 224)):
        monkeypatch.setattr(streamed_torch, "shared_bytes", lambda shared=shared: shared)
        images = part_size(3 * side * side, workers)
        assert 1 <= images <= streamed_torch.PART
        waiting = images * 3 * side * side * workers * streamed_torch.AHEAD
        assert waiting <= shared or images == 1
    monkeypatch.undo()
    memory = os.statvfs(streamed_torch.SHARED)
    assert streamed_torch.shared_bytes() <= memory.f_blocks * memory.f_frsize / 4


def without_room(key):
    """A picture of a process that may have no more than 100 bytes of shared memory."""
    if get_worker_info() is not None:
        files_of_at_most(100)
    return np.zeros((3, 8, 8), np.uint8)


def test_shared_memory_that_is_full_is_a_sentence():
    """torch shares a tensor in a thread, where an error would be printed; the training would wait without end."""
    with contextlib.closing(Workers(1)) as workers:
        split = StreamedSplit(without_room, torch.zeros(4, dtype=torch.long), workers)
        with pytest.raises(LocusError, match=r"^/dev/shm must have room for images .*--shm-size=1g.*, got: [^\n]*$"):
            next(iter(split.batches([torch.arange(4)], torch.float32)))


@pytest.mark.parametrize("workers", [0, 2])
def test_a_damaged_image_names_its_file(spec, tmp_path, workers):
    path = tmp_path / "set" / "train" / "class_1" / "0015.png"
    before = path.stat()
    with augmented(spec, workers) as splits:
        path.write_bytes(b"no image".ljust(before.st_size))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))  # else it counts as changed
        with pytest.raises(LocusError, match=f"^{path} must be an image that Pillow can read, got: [^\n]*$"):
            batches(splits.train)


def test_an_image_that_changes_while_it_is_streamed_is_refused(spec, tmp_path):
    """Else a run would go on with images that its key does not name."""
    path = tmp_path / "set" / "train" / "class_1" / "0015.png"
    with augmented(spec, 0) as splits:
        picture(7).save(path)
        with pytest.raises(LocusError, match=f"^{path} must stay as it is while runs read it, got a change"):
            batches(splits.train)


def test_all_that_processes_get_can_be_pickled(spec, tmp_path, monkeypatch):
    """Of each set: what decodes an image, before and after its first use."""
    monkeypatch.setattr(images, "RESIDENT_BYTES", 100)
    pictures.cifar(tmp_path, monkeypatch, "cifar10", train=20, test=10)
    folder = Reading(tmp_path, change=Augmentation(DeiT(), 0, 36, 3).change)
    for data in (spec, Cifar10(train_size=10, val_size=10)):
        split = load(data, folder).train
        for _ in range(2):
            again = pickle.loads(bytes(ForkingPickler.dumps(split.pixels)))
            assert np.array_equal(again((1, 0, 0)), split.pixels((1, 0, 0)))


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
