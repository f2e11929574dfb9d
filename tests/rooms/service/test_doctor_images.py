"""Room: every image of a folder is read once, and all that a run would refuse are listed."""

import json
import shutil

import pytest
from PIL import Image
from typer.testing import CliRunner

from service.cli import app, main
from service.doctor import examine_images
from tests.rooms.trainables.data.pictures import image_folder, torn


@pytest.fixture
def root(tmp_path):
    return image_folder(tmp_path / "set", {"train": 10, "valid": 2})


def found_in(root):
    seen = []
    return [*examine_images(str(root), lambda *counts: seen.append(counts))], seen


def test_a_sound_folder_says_what_each_split_has(root):
    found, seen = found_in(root)
    assert [(one.name, one.state, one.detail) for one in found] == [
        ("to train", "ok", "30 images of 3 classes (train/)"),
        ("to validate", "ok", "6 images of 3 classes (valid/)"),
        ("to test", "ok", "held out of train/"),
        ("images", "ok", "36 images, each of which can be read"),
    ]
    assert seen == [(number, 36) for number in range(1, 37)]


def test_classes_in_the_folder_itself_are_held_out_of_it(root):
    for folder in (root / "train").iterdir():
        folder.rename(root / folder.name)
    shutil.rmtree(root / "train")
    shutil.rmtree(root / "valid")
    found, _ = found_in(root)
    assert [one.detail for one in found] == [
        f"30 images of 3 classes ({root.name}/)",
        f"held out of {root.name}/",
        f"held out of {root.name}/",
        "30 images, each of which can be read",
    ]


def test_a_terminal_shows_how_many_images_are_read(root, monkeypatch, capsys):
    """Also where another command looks at a folder for the first time."""
    folder = ("--set", "data.kind=folder", "--set", f"data.path={root}", "--set", "data.image_size=8")
    for verb in (("doctor", "--data", str(root)), ("show", "cifar-baselines", *folder)):
        for on_terminal in (True, False):
            monkeypatch.setenv("FORCE_COLOR", "1" * on_terminal)
            monkeypatch.setattr("sys.argv", ["locus", *verb])
            with pytest.raises(SystemExit, match=r"^0$"):
                main()
            assert ("36/36" in capsys.readouterr().err) == on_terminal, verb


def test_all_that_is_damaged_is_listed(root):
    folder = root / "train" / "class_0"
    torn(folder / "torn.jpg")
    (folder / "empty.png").write_bytes(b"")
    Image.new("F", (2, 2)).save(folder / "float.tif")
    (folder / "link.png").symlink_to("/nowhere")
    (root / "valid" / "class_1" / "x.jp2").touch()
    (root / "extra").mkdir()
    Image.new("L", (2, 2)).save(root / "extra" / "x.png")
    found, _ = found_in(root)
    wrong = [one.detail for one in found if one.state == "wrong"]
    assert [detail.split(":")[0].split(" ")[0].rpartition("/")[2] for detail in wrong] == [
        "link.png", "the", "empty.png", "float.tif", "torn.jpg",
    ]  # fmt: skip
    assert "got extra" in wrong[1]
    assert [one.detail for one in found if one.state == "look"] == [
        f"1 file is not read: 1 of .jp2, such as {root}/valid/class_1/x.jp2"
    ]
    assert not [one for one in found if one.name == "images"]


def test_the_verb_ends_with_1_where_something_is_damaged(root):
    sound = CliRunner().invoke(app, ["doctor", "--data", str(root), "--json"])
    assert sound.exit_code == 0, sound.output
    assert json.loads(sound.stdout)[-1]["detail"] == "36 images, each of which can be read"
    torn(root / "train" / "class_0" / "torn.jpg")
    damaged = CliRunner().invoke(app, ["doctor", "--data", str(root)])
    assert damaged.exit_code == 1
    assert "torn.jpg must be an image that Pillow can read, got: " in damaged.stdout
    (root / "images.npz").touch()
    for name, said in (("no", ""), ("images.npz", " (np.savez(path, images=images, labels=labels) ")):
        other = CliRunner().invoke(app, ["doctor", "--data", str(root / name), "--json"])
        assert other.exit_code == 1
        (only,) = json.loads(other.stdout)
        assert f"must be a folder with images in <class>/ or train/<class>/, got {root / name}{said}" in only["detail"]
