"""A start from a file: known by its content, found from where it was given."""

import hashlib

import pytest

from trainables.backbones import ViT
from trainables.data.custom import OwnData
from trainables.encodings import PEG, Concat, Learnable, NoEncoding, RelativeBias
from trainables.recipe import FromFile, FromTrial, Recipe, TaughtByTrial
from trainables.spec import SpecError


def test_a_file_without_its_digest_is_told_it(tmp_path, monkeypatch):
    path = tmp_path / "w.pt"
    path.write_bytes(b"something")
    monkeypatch.chdir(tmp_path)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(SpecError, match=rf"init\.sha256 must be given \({found} is that of w\.pt\), got None"):
        Recipe().put({"init": {"kind": "from_file", "path": "w.pt"}})
    with pytest.raises(SpecError, match=r"init\.sha256 must be given$"):
        Recipe().put({"init": {"kind": "from_file", "path": "v.pt"}})


def test_a_path_is_seen_from_where_it_is_given_and_is_no_part_of_what_it_is(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    here = FromFile("w.pt", "0" * 64)
    assert here.path == str(tmp_path / "w.pt")
    monkeypatch.chdir("/")
    assert FromFile.read(here.plain()) == here
    assert FromFile("w.pt", "0" * 64).identity() == here.identity()


@pytest.mark.parametrize("node", ["init", "teacher"])
def test_a_home_folder_is_expanded(tmp_path, monkeypatch, node):
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "w.pt").write_bytes(b"something")
    base = Recipe() if node == "init" else Recipe(model=ViT(pool="distilled"), teacher=TaughtByTrial(values={}))
    said = rf"{node}\.sha256 must be given \([0-9a-f]{{64}} is that of ~/w\.pt\), got None"
    with pytest.raises(SpecError, match=said):
        base.put({node: {"kind": "from_file", "path": "~/w.pt"}})
    known = {f"{node}.kind": "from_file", f"{node}.sha256": "0" * 64}
    at_home, whole = (base.put(known | {f"{node}.path": path}) for path in ("~/w.pt", str(tmp_path / "w.pt")))
    assert at_home.files == (str(tmp_path / "w.pt"),)
    assert at_home == whole


WIDE = """
from typing import ClassVar

from trainables.data import DatasetSpec


class Wide(DatasetSpec):
    kind: str = "wide.py:Wide"
    rows: int = 16
    columns: int = 64
    image_counts: ClassVar = (20, 20, 20)
    outputs: ClassVar = 2
    metric: ClassVar = "accuracy"

    @property
    def size(self):
        return 3, self.rows, self.columns

    def arrays(self):
        raise NotImplementedError
"""


def wide(rows, columns, start, encoding=None):
    """A recipe of images with patches of 4 x 4 pixels that starts from something."""
    data = OwnData(kind="wide.py:Wide", source=WIDE, rows=4 * rows, columns=4 * columns)
    return Recipe(data=data, encoding=encoding or Learnable(), init=start)


def test_a_table_of_another_grid_with_as_many_patches_is_not_taken_for_ours():
    square, turned = ({"data.rows": 4 * rows, "data.columns": 4 * columns} for rows, columns in ((8, 8), (16, 4)))
    for start, others in ((FromTrial(square), "8 x 8"), (FromTrial(turned), "16 x 4")):
        for encoding in (Learnable(), Learnable(injection=Concat())):
            with pytest.raises(SpecError) as caught:
                wide(4, 16, start, encoding)
            must = f"init.part must be 'backbone' where 4 x 16 patches are as many as {others}, whose table fits, too"
            assert str(caught.value) == f"{must}, got 'all'"
        wide(4, 16, start.put({"part": "backbone"}))
    with pytest.raises(SpecError, match=r"^init\.part must be 'backbone'"):
        wide(4, 16, FromTrial(turned), RelativeBias())
    for encoding in (NoEncoding(), PEG()):
        wide(4, 16, FromTrial(square), encoding)
    wide(4, 16, FromTrial({"optimizer.epochs": 3}))
