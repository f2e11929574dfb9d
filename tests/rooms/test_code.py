"""The code that counts: which files it names, and that a change of words is none."""

from pathlib import Path

import pytest

import trainables.code
from trainables.catalog import OwnEncoding
from trainables.code import ALWAYS, Code, Codes
from trainables.recipe import FromTrial, Recipe

OWN = """from trainables.catalog import EncodingSpec


class Spiral(EncodingSpec):
    kind: str = "mine.py:Spiral"
    turns: int = 2
"""


def files(values: dict) -> set[str]:
    return set(Codes()(Recipe().put(values)).files) - {f"trainables/{name}" for name in (*ALWAYS, "backbones/vit.py")}


def test_a_recipe_names_the_file_of_its_trunk() -> None:
    assert "trainables/backbones/vit.py" in Codes()(Recipe()).files
    names = Codes()(Recipe().put({"model.kind": "pvt_v2"})).files
    assert "trainables/backbones/pvt_v2.py" in names
    assert "trainables/backbones/vit.py" not in names


def test_a_recipe_names_the_files_of_its_data_and_its_kinds() -> None:
    assert files({}) == {"trainables/red_green.py"}
    parts = [{"kind": "fourier"}, {"kind": "peg"}]
    found = files({"encoding": {"kind": "composed", "parts": parts}, "data.kind": "digits", "model.patch": 2})
    assert found == {f"trainables/{name}.py" for name in ("digits", "encodings/fourier", "encodings/convolution")}


def test_a_parents_files_count_too() -> None:
    start = FromTrial(values={"data.kind": "red_green", "encoding.kind": "learnable"}).plain()
    found = files({"data.kind": "digits", "model.patch": 2, "encoding.kind": "peg", "start": start})
    names = ("digits", "red_green", "encodings/absolute", "resample", "encodings/convolution")
    assert found == {f"trainables/{name}.py" for name in names}


def test_what_is_added_to_the_loss_counts_where_it_is() -> None:
    assert files({"auxiliary.kind": "drloc"}) == {"trainables/red_green.py", "trainables/drloc.py"}
    taught = {"model.read_out": "distilled", "teacher": {"kind": "from_trial", "values": {"encoding.kind": "peg"}}}
    names = {"red_green", "distillation", "encodings/convolution"}
    assert files(taught) == {f"trainables/{name}.py" for name in names}, "the teacher's files count"
    file = {**taught["teacher"], "kind": "from_file", "path": "t.pt", "sha256": "a" * 64}
    assert files({**taught, "teacher": file}) == {f"trainables/{name}.py" for name in names | {"weights_file"}}


def test_own_code_is_in_by_its_syntax_tree() -> None:
    def code(text: str) -> Code:
        return Codes()(Recipe(encoding=OwnEncoding(kind="mine.py:Spiral", source=text)))

    assert "mine.py" in code(OWN).files
    assert code(OWN).digest == code(OWN + "\n# a comment\n").digest
    assert code(OWN).changed(code(OWN + "\nONE = 1\n")) == ["mine.py"]
    assert code(OWN).digest != code(OWN + "\nONE = 1\n").digest


def test_every_version_of_an_own_file_counts() -> None:
    """A parent's encoding may be of another text than the child's."""
    other, kind = OWN + "\nONE = 1\n", "mine.py:Spiral"

    def code(child: str, parent: str) -> str:
        values = {"encoding.kind": kind, "encoding.source": parent}
        start = {"kind": "from_trial", "values": values, "part": "backbone"}
        return Codes()(Recipe().put({"encoding": {"kind": kind, "source": child}, "start": start})).digest

    texts = [(OWN, OWN), (OWN, other), (other, OWN), (other, other)]
    assert len({code(*pair) for pair in texts}) == 4


@pytest.fixture
def copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the files, which a test may change."""
    there = Path(trainables.code.__file__).parent
    for file in [*there.glob("*.py"), *there.glob("encodings/*.py"), *there.glob("backbones/*.py")]:
        target = tmp_path / file.relative_to(there)
        target.parent.mkdir(exist_ok=True)
        target.write_text(file.read_text())
    monkeypatch.setattr(trainables.code, "__file__", str(tmp_path / "code.py"))
    return tmp_path


@pytest.mark.parametrize("name", [*ALWAYS, "backbones/vit.py", "red_green.py", "encodings/fourier.py"])
def test_one_changed_expression_is_another_code_and_is_named(copy: Path, name: str) -> None:
    recipe = Recipe().put({"encoding.kind": "fourier"})
    before = Codes()(recipe)
    text = (copy / name).read_text()
    (copy / name).write_text(f'"""Other words."""\n# and a comment\n{text}')
    assert Codes()(recipe) == before
    (copy / name).write_text(f"{text}\nSPARE = 1\n")
    assert Codes()(recipe).changed(before) == [f"trainables/{name}"]


@pytest.mark.parametrize(
    "name", ["recipe.py", "catalog.py", "worker.py", "encodings/peg.py", "backbones/cait.py", "digits.py"]
)
def test_files_of_other_recipes_do_not_count(copy: Path, name: str) -> None:
    recipe = Recipe().put({"encoding.kind": "fourier"})
    before = Codes()(recipe)
    (copy / name).write_text("SPARE = 1\n")
    assert Codes()(recipe) == before
