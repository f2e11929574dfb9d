"""A folder of images: its layout, its digest, which is of what its files hold, and all that can be wrong with it."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

import numpy as np
import pytest
from filelock import FileLock
from PIL import Image
from timm.data import create_transform

from tests.full_disk import files_of_at_most
from tests.rooms.trainables.data.pictures import image_folder, picture, torn
from trainables.data import Folder, ImageCounts, decoded_torch, folder_contents, images
from trainables.data.splits_torch import Reading, load
from trainables.recipe import Recipe, Run
from trainables.spec import LocusError, SpecError
from trainables.watched import watched


@pytest.fixture
def root(tmp_path):
    return image_folder(tmp_path / "set", {"train": 20, "test": 4})


def numbers(split):
    """The numbers of the pictures, as `picture` painted them."""
    return split.images[:, 0, 0, 0].tolist()


@pytest.mark.parametrize(("splits", "expected"), [
    ({"train": 20, "val": 3, "test": 4}, ImageCounts(60, 9, 12)),
    ({"train": 20, "test": 4}, ImageCounts(54, 6, 12)),
    ({"train": 20, "val": 3}, ImageCounts(54, 9, 6)),
    ({"train": 20}, ImageCounts(48, 6, 6)),
])  # fmt: skip
def test_missing_splits_are_held_out_of_the_training_images(tmp_path, splits, expected):
    spec = Folder(path=str(image_folder(tmp_path, splits)), image_size=4)
    assert spec.image_counts == expected
    loaded = load(spec)
    splits = [loaded.train, loaded.validation, loaded.test]
    assert ImageCounts(*map(len, splits)) == expected
    assert len({number for part in splits for number in numbers(part)}) == sum(expected)
    if "val" in splits:  # its images are numbered after those to train
        last = {*range(60, 69)}
        assert {*numbers(loaded.validation)} == last


def test_images_keep_their_labels_and_shares(root):
    loaded = load(Folder(path=str(root), image_size=4))
    for part, each in ((loaded.train, 20), (loaded.validation, 20)):
        assert (np.array(numbers(part)) // each).tolist() == part.targets.tolist()
        assert len({*np.bincount(part.targets)}) == 1


def test_smaller_draws_are_part_of_larger_ones_and_of_the_same_split(root):
    def drawn(**values):
        return load(Folder(path=str(root), image_size=4, **values))

    ten, twenty = drawn(samples_per_class=5), drawn(samples_per_class=10)
    assert {*numbers(ten.train)} < {*numbers(twenty.train)}
    assert np.bincount(ten.train.targets).tolist() == [5, 5, 5]
    assert numbers(ten.validation) == numbers(twenty.validation)
    assert numbers(drawn(train_size=15).train) == numbers(ten.train)
    other = drawn(samples_per_class=5, data_seed=1)
    assert {*numbers(other.train)} != {*numbers(ten.train)}
    assert {*numbers(drawn(test_size=3).test)} < {*numbers(drawn().test)}


def key(data):
    return Run(recipe=Recipe(data=data), seed=0).key


def test_another_path_is_another_folder_unless_its_digest_is_given(root, tmp_path):
    other = Folder(path=str(image_folder(tmp_path / "other", {"train": 10, "val": 5}, classes=2)), image_size=8)
    spec = Folder(path=str(root), image_size=8)
    assert spec.put({"path": other.path}) == other
    recipe = Recipe(data=spec)
    assert recipe.put({"data.path": other.path}).data == other
    assert recipe.put({"data": spec, "data.path": other.path}).data == other
    assert recipe.put({f"data.{name}": value for name, value in other.plain().items() if name != "kind"}).data == other

    moved = {"data.path": str(tmp_path / "moved"), "data.digest": spec.digest}
    assert key(recipe.put(moved).data) == key(spec)
    with pytest.raises(SpecError, match=r"^data[.]classes must be a positive number of classes, got 0"):
        recipe.put(moved | {"data.digest": other.digest})
    with pytest.raises(SpecError, match=r"^data[.]path must be a folder with images"):
        recipe.put({"data.path": moved["data.path"]})


def test_another_content_or_place_is_refused_before_training(root):
    spec = Folder(path=str(root), image_size=4)
    picture(200).save(root / "train" / "class_0" / "new.png")
    with pytest.raises(LocusError, match=f"digest {spec.digest}, got [0-9a-f]{{16}} in"):
        load(spec)
    shutil.rmtree(root / "test" / "class_1")
    with pytest.raises(LocusError, match=r"data[.]path must be a folder with images in test/class_1, got none there"):
        load(spec)
    shutil.rmtree(root)
    with pytest.raises(LocusError, match="got no folder"):
        load(spec)
    for name, how in (("none", "$"), ("set.npz", r" \(np.savez\(path, images=images, labels=labels\) ")):
        with pytest.raises(SpecError, match=f"images in <class>/ or train/<class>/, got {root / name}{how}"):
            Recipe().put({"data.kind": "folder", "data.path": str(root / name)})


def test_decoded_once_and_read_from_there(root, tmp_path):
    spec = Folder(path=str(root), image_size=4)
    first = load(spec, Reading(tmp_path / "data"))
    assert len([*(tmp_path / "data" / "decoded").glob("*.npy")]) == 2
    shutil.rmtree(root)
    again = load(spec, Reading(tmp_path / "data"))
    for one, other in zip((first.train, first.test), (again.train, again.test), strict=True):
        assert (one.images == other.images).all()
        assert (one.targets == other.targets).all()
    with pytest.raises(LocusError, match="got no folder"):
        load(spec.model_copy(update={"image_size": 5}), Reading(tmp_path / "data"))


def test_decoded_images_that_were_read_longest_ago_go_where_all_are_too_large(root, tmp_path, monkeypatch):
    """Those that were read this week stay, those that are being decoded, and files of a person."""
    folder = tmp_path / "data" / "decoded"
    names = {side: Folder(path=str(root), image_size=side).decoded_name for side in range(4, 9)}

    def loaded(side):
        return load(Folder(path=str(root), image_size=side), Reading(tmp_path / "data")).train.images

    def there():
        return {path.name.partition(".")[0] for path in folder.iterdir() if path.suffix != ".lock"}

    mapped = loaded(8)
    pixels = mapped.clone()
    for side in (5, 6):
        loaded(side)
    (folder / f"{names[4]}.tmp").write_bytes(b"half")
    (folder / "mine.npy").write_bytes(b"mine")
    for number, name in enumerate((names[8], names[5], names[4], "mine")):
        for path in folder.glob(f"{name}.*"):
            os.utime(path, (number, number))
    size = sum(path.stat().st_size for path in folder.glob("????????????????.*"))
    monkeypatch.setattr(decoded_torch, "MOST_BYTES", size)
    loaded(7)
    assert there() == {*names.values(), "mine"} - {names[8]}, "the oldest is larger than the new one"
    monkeypatch.setattr(decoded_torch, "MOST_BYTES", 1)
    with FileLock(folder / f"{names[4]}.lock"):
        assert (loaded(8) == pixels).all(), "it is decoded again"
    assert there() == {*names.values(), "mine"} - {names[5]}
    assert (mapped == pixels).all(), "a run that has mapped them reads on"
    loaded(5)
    assert there() == {*names.values(), "mine"} - {names[4]}, "what a killed run left"


@pytest.mark.parametrize(("change", "sentence"), [
    (lambda root: shutil.rmtree(root / "train"), "must be a folder with images in <class>/ or train/<class>/, got"),
    (lambda root: [(root / "train").rename(root / "cats"), shutil.rmtree(root / "test")],
     r"got .*/set \(call cats train, val or test, or let each hold the images of one class\)"),
    (lambda root: [shutil.rmtree(root / "test"), (root / "train").rename(root / "pets"),
                   shutil.copytree(root / "pets", root / "more")], r"\(call more, pets train, val or test, or let"),
    (lambda root: [lift(root), (root / "class_2").rename(root / "train")],
     r"\(the images in train/ are of no class; if it is a class, put all classes into a folder train/\)"),
    (lambda root: [lift(root), (root / "empty").mkdir()], "a folder with images in set/empty, got none there"),
    (lambda root: [lift(root), (root / "gone").symlink_to("nowhere")], "set/gone: a link to nowhere, which is not"),
    (lambda root: [lift(root), [shutil.rmtree(root / f"class_{one}") for one in (1, 2)]],
     "two classes or more in set/, got class_0 alone"),
    (lambda root: (root / "train" / "cats").mkdir(), "a folder with images in train/cats, got"),
    (lambda root: [shutil.rmtree(path) for path in root.glob("*/*") if path.name != "class_0"],
     "two classes or more in train/, got class_0 alone"),
    (lambda root: (root / "test" / "class_1").rename(root / "moved"), "a folder with images in test/class_1, got"),
    (lambda root: picture(1).save(mkdir_all(root / "test" / "dogs") / "1.png"), "such as test/dogs, got"),
], ids=["no train", "one folder of classes",
        "splits by other names", "a class named train",
        "a folder beside classes", "a broken link beside classes", "one class at the top",
        "an empty class", "one class", "a class missing to test",
        "a class to test alone"])  # fmt: skip
def test_a_wrong_layout_is_one_sentence(root, change, sentence):
    change(root)
    with pytest.raises(SpecError, match=sentence):
        Recipe().put({"data.kind": "folder", "data.path": str(root)})


def lift(root):
    """Puts the classes of `train` into the folder itself, without a folder for a split."""
    shutil.rmtree(root / "test")
    for folder in (root / "train").iterdir():
        folder.rename(root / folder.name)
    (root / "train").rmdir()


def test_classes_in_the_folder_itself_are_those_of_train(root):
    """They have its digest, so what was trained counts; the plan says so, with their names."""
    shutil.rmtree(root / "test")
    before = Folder(path=str(root), image_size=4)
    (root / "train" / "class_0").rename(root / "train" / "a")
    (root / "train" / "class_1").rename(root / "train" / "a-b")  # by its name before a/, by its folder after
    named = Folder(path=str(root), image_size=4)
    assert named.digest != before.digest
    (root / "test").mkdir()
    lift(root)
    picture(7).save(root / "of no class.png")
    (root / "a" / "about.txt").touch()
    spec = Folder(path=str(root), image_size=4)
    assert (spec.digest, spec.images, key(spec)) == (named.digest, (60, 0, 0), key(named))
    assert [*numbers(load(spec).train), *numbers(load(spec).validation)]
    said = spec.described()
    assert said.validation == "held out of set/"
    assert "no folder is named train, val or test, so each folder is a class: a, a-b, class_2" in said.remarks
    assert any(remark.startswith("2 files are not read: ") for remark in said.remarks)


def test_the_folder_of_a_split_is_not_taken_for_all_images(root):
    with pytest.raises(SpecError, match=r"got .*/set/train \(name the folder above it, or call this one otherwise\)"):
        Folder(path=str(root / "train"), image_size=4)


def test_a_torn_image_names_its_file_and_leaves_nothing(root, tmp_path, monkeypatch):
    """Its header is whole, so only a look at all of it tells: that of the plan, or of a run if the folder is large."""
    torn(root / "train" / "class_1" / "0025.jpg")
    with pytest.raises(SpecError, match=r"images that can be read, got .*0025[.]jpg: image file is truncated"):
        Folder(path=str(root), image_size=4)
    monkeypatch.setattr(folder_contents, "DECODED_BYTES", 100)
    with pytest.raises(LocusError, match=r"0025[.]jpg must be an image that Pillow can read, got: "):
        load(Folder(path=str(root), image_size=4), Reading(tmp_path / "data"))
    assert not [*(tmp_path / "data" / "decoded").glob("*.[nt]*")]


@pytest.mark.parametrize(("width", "height"), [(40, 20), (20, 40), (21, 33)])
def test_the_shorter_side_is_resized_and_the_center_kept(tmp_path, width, height):
    for number in range(30):
        picture(number, width, height).save(mkdir_all(tmp_path / "train" / f"c{number % 2}") / f"{number}.png")
    ramp = np.tile(np.arange(width, dtype=np.uint8)[None, :, None], (height, 1, 3))
    Image.fromarray(ramp).save(tmp_path / "train" / "c0" / "0.png")
    loaded = load(Folder(path=str(tmp_path), image_size=10))
    together = np.concatenate([part.images for part in (loaded.train, loaded.validation, loaded.test)])
    image = next(image for image in together if len(np.unique(image)) > 4)
    assert abs(image[0].astype(int).mean() - (width - 1) / 2) < 1


def mkdir_all(path):
    path.mkdir(parents=True, exist_ok=True)
    return path


def test_a_full_disk_is_one_sentence_and_leaves_nothing(root, tmp_path):
    """In a process that may write no file of more than 4 kB: the system refuses as it does on a full disk."""
    code = (
        "import sys; from pathlib import Path; from trainables.data import Folder\n"
        "from trainables.data.splits_torch import Reading, load\n"
        "load(Folder(path=sys.argv[1], image_size=32), Reading(Path(sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(root), str(tmp_path / "data")], capture_output=True, text=True,
        preexec_fn=lambda: files_of_at_most(4096), cwd=os.getcwd(), check=False,
    )  # fmt: skip
    assert "LocusError: the disk of" in done.stderr, done.stderr
    assert "GiB free for decoded images, got: File too large" in done.stderr
    assert not [*(tmp_path / "data" / "decoded").glob("*.[nt]*")]


def test_decoded_images_are_known_by_what_chooses_and_decodes_them(root, monkeypatch):
    """Else another revision, another Pillow or another numpy would train on images of before."""
    spec = Folder(path=str(root), image_size=4)
    names = [spec.decoded_name]
    assert spec.model_copy(update={"path": "/elsewhere"}).decoded_name == names[0]
    for library in ("pillow", "numpy"):
        monkeypatch.setattr(images, "version", lambda name, other=library: "1.0" if name == other else version(name))
        names.append(spec.decoded_name)
        monkeypatch.undo()
    monkeypatch.setattr(Folder, "REVISION", Folder.REVISION + 1)
    assert len({*names, spec.decoded_name}) == 4


@pytest.mark.parametrize("what", [".npy", ".labels.npy"])
@pytest.mark.parametrize("left", [0, 60, -1])
def test_decoded_images_that_a_power_loss_cut_are_decoded_again(root, tmp_path, what, left):
    spec = Folder(path=str(root), image_size=4)
    first = numbers(load(spec, Reading(tmp_path / "data")).train)
    file = tmp_path / "data" / "decoded" / f"{spec.decoded_name}{what}"
    whole = file.read_bytes()
    file.write_bytes(whole[:left])
    assert numbers(load(spec, Reading(tmp_path / "data")).train) == first
    assert file.read_bytes() == whole


@pytest.mark.parametrize("crop_pct", [1.0, 0.875, 0.5])
def test_images_are_cropped_as_timm_crops_them(tmp_path, crop_pct):
    """Of sides that need no rounding: timm rounds lengths down, and a crop's beginning to the even pixel."""
    rng = np.random.default_rng(0)
    for place, size in enumerate([(64, 96), (96, 64), (64, 64)] * 4):
        folder = tmp_path / "train" / f"class_{place % 2}"
        folder.mkdir(parents=True, exist_ok=True)
        Image.fromarray(rng.integers(0, 255, (*size, 3), np.uint8)).save(folder / f"{place}.png")
    spec = Folder(path=str(tmp_path), image_size=28, crop_pct=crop_pct, val_size=2, test_size=2)
    splits = load(spec)
    timms = create_transform((3, 28, 28), crop_pct=crop_pct, interpolation="bicubic", normalize=False)
    expected = {timms(Image.open(file)).numpy().tobytes() for file in tmp_path.rglob("*.png")}
    whole = [
        image.numpy().tobytes() for part in (splits.train, splits.validation, splits.test) for image in part.images
    ]
    assert {*whole} == expected
    assert ("crop_pct" in spec.identity()) == (crop_pct < 1)


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "locus" / "folders"


@pytest.fixture
def bitmaps(tmp_path):
    return image_folder(tmp_path / "set", {"train": 10, "test": 2}, suffix=".bmp")


@pytest.fixture
def read(monkeypatch):
    """The names of the files that are read, all of which may be kept."""
    names, usual = [], folder_contents._read
    monkeypatch.setattr(folder_contents, "SETTLED_NS", -(10**12))
    monkeypatch.setattr(folder_contents, "_read", lambda file, whole: names.append(file.path) or usual(file, whole))
    return names


def folder_of(bitmaps):
    return Folder(path=str(bitmaps), image_size=4)


def test_images_of_the_same_size_are_another_set(bitmaps, tmp_path):
    """Re-rendered in place, with the times of before: another key, another decoded file, the new pixels."""
    before = folder_of(bitmaps)
    old = load(before, Reading(tmp_path / "data"))
    for path in bitmaps.rglob("*.bmp"):
        was = path.stat()
        picture(int(path.stem) + 100).save(path)
        os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
        assert path.stat().st_size == was.st_size
    after = folder_of(bitmaps)
    assert after.digest != before.digest
    assert after.decoded_name != before.decoded_name
    new = load(after, Reading(tmp_path / "data"))
    assert (new.train.images[:, 0, 0, 0] == old.train.images[:, 0, 0, 0] + 100).all()
    with pytest.raises(LocusError, match=f"must name a folder with the digest {before.digest}, got {after.digest} in"):
        load(before, Reading())


def test_a_file_is_read_once_and_again_where_it_changed(bitmaps, read):
    before, told = sorted(path.name for path in bitmaps.rglob("*")), []
    with watched(lambda *counts: told.append(counts)):
        first = folder_of(bitmaps)
        assert len(read) == 36
        assert folder_of(bitmaps) == first
    assert len(read) == 36
    assert told == [(number, 36) for number in range(1, 37)]
    path = bitmaps / "train" / "class_1" / "0015.bmp"
    was = path.stat()
    picture(200).save(path.with_name("new.bmp"))
    os.utime(path.with_name("new.bmp"), ns=(was.st_atime_ns, was.st_mtime_ns))
    path.with_name("new.bmp").replace(path)
    second = folder_of(bitmaps)
    assert second.digest != first.digest
    assert read[36:] == ["class_1/0015.bmp"]
    assert sorted(path.name for path in bitmaps.rglob("*")) == before, "nothing is written beside the images"


def test_a_change_in_place_that_keeps_size_and_time_is_seen(bitmaps, read):
    first = folder_of(bitmaps)
    shutil.copytree(bitmaps, bitmaps.parent / "copy", copy_function=shutil.copyfile)
    assert folder_of(bitmaps.parent / "copy").digest == first.digest, "where a copy lies, and its times, do not matter"
    path = bitmaps / "train" / "class_1" / "0015.bmp"
    was = path.stat()
    while path.stat().st_ctime_ns == was.st_ctime_ns:
        picture(200).save(path)
    os.utime(path, ns=(was.st_atime_ns, was.st_mtime_ns))
    assert folder_of(bitmaps).digest != first.digest


def test_what_changed_just_now_is_not_kept(bitmaps, cache):
    """A second change in the same tick of the clock would have the same times."""
    folder_of(bitmaps)
    assert not cache.exists()


def test_a_cache_that_is_damaged_or_of_other_code_is_read_again(bitmaps, read, cache, monkeypatch):
    first = folder_of(bitmaps)
    (file,) = cache.iterdir()
    whole = file.read_bytes()
    rng = np.random.default_rng(0)
    for place in [*rng.integers(0, len(whole), 5).tolist(), None]:
        count = len(read)
        file.write_bytes(b"" if place is None else whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        assert folder_of(bitmaps) == first
        assert len(read) == count + 36
        assert file.read_bytes() == whole
    monkeypatch.setattr(folder_contents, "version", lambda name: "1.0")
    folder_of(bitmaps)
    assert len(read) == count + 72


def test_many_may_look_at_once(bitmaps, read, cache):
    with ThreadPoolExecutor(8) as pool:
        digests = [*pool.map(lambda _: folder_of(bitmaps).digest, range(16))]
    assert len({*digests}) == 1
    assert [file.suffix for file in cache.iterdir()] == [".json"]
    count = len(read)
    folder_of(bitmaps)
    assert len(read) == count


def test_a_change_between_the_look_and_the_decoding_gets_no_name(bitmaps, tmp_path, monkeypatch):
    """The decoded file of a digest holds the images of that digest alone."""
    from trainables.data import folder_torch

    spec, usual = folder_of(bitmaps), folder_torch.content

    def late(*arguments):
        values = usual(*arguments)
        for path in (bitmaps / "train").rglob("*.bmp"):
            Image.new("RGB", (40, 40)).save(path)
        return values

    monkeypatch.setattr(folder_torch, "content", late)
    with pytest.raises(LocusError, match="must stay as it is while runs read it, got a change: run the study again"):
        load(spec, Reading(tmp_path / "data"))
    assert not [*(tmp_path / "data" / "decoded").glob("*.[nt]*")]
