"""The code that counts: which files it names, and that a change of words is none."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from trainables.encodings import OwnEncoding
from trainables.recipe import FromTrial, Recipe
from trainables.recipe.code_digest import FOLDER, CodeDigest, CodeDigests, computes
from trainables.source import SourceError

OWN = """from trainables.encodings import EncodingSpec


class Spiral(EncodingSpec):
    kind: str = "mine.py:Spiral"
    turns: int = 2
"""


def files(values: dict) -> set[str]:
    """The files of a recipe beside those of a plain one, without `.py`."""
    digests = CodeDigests()
    return {name.removesuffix(".py") for name in {*digests.files(Recipe().put(values))} ^ {*digests.files(Recipe())}}


def pair(name: str) -> set[str]:
    return {name, f"{name}_torch"}


PEG = pair("encodings/peg")
LEARNABLE = {"encodings/learnable"}
"""A declared encoding is one file."""


def test_a_recipe_names_the_pair_of_its_backbone() -> None:
    common = {"backbones/one_grid", *pair("backbones/vit")}
    assert files({"model.kind": "cait"}) - common == pair("backbones/cait")


def test_a_recipe_names_the_pairs_of_its_data_and_its_kinds() -> None:
    parts = [{"kind": "fourier"}, {"kind": "peg"}]
    found = files({"encoding": {"kind": "composed", "parts": parts}, "data.kind": "digits", "model.patch_size": 2})
    assert found == pair("data/digits") | pair("data/red_green") | {"encodings/fourier"} | PEG


def test_a_parents_files_count_too() -> None:
    start = FromTrial(values={"data.kind": "red_green", "encoding.kind": "learnable"}).plain()
    found = files({"data.kind": "digits", "model.patch_size": 2, "encoding.kind": "peg", "init": start})
    assert found == pair("data/digits") | LEARNABLE | PEG


def test_what_is_added_to_the_loss_counts_where_it_is() -> None:
    assert files({"auxiliary.kind": "drloc"}) == {"training/optional/drloc"}
    taught = {"model.pool": "distilled", "teacher": {"kind": "from_trial", "values": {"encoding.kind": "peg"}}}
    assert files(taught) == {"training/optional/distillation", *PEG}, "the teacher's files count"
    file = {**taught["teacher"], "kind": "from_file", "path": "t.pt", "sha256": "a" * 64}
    assert files({**taught, "teacher": file}) == {"training/optional/distillation", "weights/files", *PEG}


def test_own_code_is_in_by_its_syntax_tree() -> None:
    def code(text: str) -> CodeDigest:
        return CodeDigests()(Recipe(encoding=OwnEncoding(kind="mine.py:Spiral", source=text)))

    assert "mine.py" in code(OWN).files
    assert code(OWN).digest == code(OWN + "\n# a comment\n").digest
    assert code(OWN).changed(code(OWN + "\nONE = 1\n")) == ["mine.py"]
    assert code(OWN).digest != code(OWN + "\nONE = 1\n").digest


LEANING = """from trainables.data import Digits
from trainables.encodings import Fourier, HeadsSpec
from trainables.encodings.rotary import rotated
from trainables.recipe import Recipe

class Turned(HeadsSpec):
    kind: str = "mine.py:Turned"

    def build(self, widths, grid, depth):
        import trainables.encodings.relative_torch as pairs
        from trainables.encodings import PEG

study = (Recipe, Digits, Fourier)
"""


def test_what_an_own_file_uses_of_the_package_counts(subtests) -> None:
    """Imports at its top or inside its methods count; those that its `study` alone uses do not."""
    for used, named in [
    ("", set()),
    ("rotated", {"encodings/rotary"}),
    ("rotated, PEG", {"encodings/rotary", *PEG}),
    ("pairs", {"encodings/pair_lookup_torch", *pair("encodings/relative")}),
    ("Recipe, Digits", pair("data/digits")),
]:  # fmt: skip
        with subtests.test(f"{used}, {named}"):
            text = f"{LEANING}\ndef uses():\n    return [{used}]\n"
            own = {"encoding": {"kind": "mine.py:Turned", "source": text}}
            assert files(own) == named


def test_what_an_own_file_uses_counts_however_it_is_imported(subtests) -> None:
    fourier = {"encodings/fourier"}
    for line, used in [
        ("from service import Fourier", "Fourier"),
        ("from service import Fourier as Waves, Recipe", "Waves, Recipe"),
        ("import service", "service.Fourier.model_fields, service.run"),
        ("import service.public as S", "S.Fourier"),
        ("from trainables import encodings", "encodings.Fourier"),
        ("import trainables.encodings", "trainables.encodings.Fourier"),
        ("import trainables.encodings as E", "E.Fourier(gamma=2.0).gamma"),
        ("import trainables.encodings.fourier", "trainables.encodings.fourier.Fourier"),
        ("import trainables", "trainables.encodings.Fourier"),
    ]:
        with subtests.test(line):
            assert files(of_own(line, used)) == fourier
    with subtests.test("in the study alone"):
        assert files(of_own("import service\n\nstudy = service.Fourier", "")) == set()


def test_a_package_that_an_own_file_uses_as_a_whole_counts_whole(subtests) -> None:
    every = {f"encodings/{file.name}" for file in FOLDER.glob("encodings/*.py")} - {"encodings/__init__.py"}
    some = {"encodings/fourier.py", "encodings/irpe.py", *(f"{name}.py" for name in PEG)}
    for line, used, counted in [
        ("from trainables.encodings import *", "", every),
        ("import trainables.encodings as E", "getattr(E, 'Fourier')", every),
        ("from trainables.encodings import KINDS", "KINDS['fourier']", every),
        ("from trainables import encodings", "encodings.KINDS.get", every),
        ("from service import *", "", some),
        ("import service", "getattr(service, 'Fourier')", some),
    ]:
        with subtests.test(line):
            assert {*CodeDigests().files(Recipe().put(of_own(line, used)))} >= counted


def of_own(line: str, used: str) -> dict:
    """A recipe's values with an own file that has this import and uses these names."""
    return {"encoding": {"kind": "mine.py:Spiral", "source": f"{line}\n{OWN}\ndef uses():\n    return [{used}]\n"}}


def test_every_version_of_an_own_file_counts() -> None:
    """A parent's encoding may be of another text than the child's."""
    other, kind = OWN + "\nONE = 1\n", "mine.py:Spiral"

    def code(child: str, parent: str) -> str:
        values = {"encoding.kind": kind, "encoding.source": parent}
        start = {"kind": "from_trial", "values": values, "part": "backbone"}
        return CodeDigests()(Recipe().put({"encoding": {"kind": kind, "source": child}, "init": start})).digest

    texts = [(OWN, OWN), (OWN, other), (other, OWN), (other, other)]
    assert len({code(*pair) for pair in texts}) == 4


@pytest.fixture(scope="module")
def copied(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    for file in FOLDER.rglob("*.py"):
        target = root / file.relative_to(FOLDER)
        target.parent.mkdir(exist_ok=True)
        target.write_text(file.read_text())
    return root


@pytest.fixture
def copy(copied: Path) -> Iterator[Path]:
    """A copy of the files, which a test may change; they are put back as they were after it."""
    texts = {file: file.read_text() for file in copied.rglob("*.py")}
    yield copied
    for file, text in texts.items():
        file.write_text(text)


FOURIER = Recipe().put({"encoding.kind": "fourier"})
OTHERS = ["encodings/peg.py", "encodings/peg_torch.py", "backbones/cait.py", "data/digits.py"]
OTHERS += ["training/optional/drloc.py"]


def test_one_changed_expression_is_another_code_and_is_named(copy: Path) -> None:
    before = CodeDigests(copy)(FOURIER)
    for name in CodeDigests().files(FOURIER):
        text = (copy / name).read_text()
        (copy / name).write_text(f'"""Other words."""\n# and a comment\n{text}')
        assert CodeDigests(copy)(FOURIER) == before, name
        (copy / name).write_text(f"{text}\nSPARE = 1\n")
        assert CodeDigests(copy)(FOURIER).changed(before) == [f"trainables/{name}"]
        (copy / name).write_text(text)


def test_what_a_spec_says_that_changes_numbers_is_another_code(copy: Path) -> None:
    """How many layers a stack of PEG has is said by its spec, not by its torch half."""
    stack = Recipe().put({"encoding.kind": "peg", "encoding.form": "depthwise_stack"})
    before, path = CodeDigests(copy)(stack), copy / "encodings/peg.py"
    path.write_text(path.read_text().replace("return 4 if", "return 3 if"))
    assert CodeDigests(copy)(stack).changed(before) == ["trainables/encodings/peg.py"]


def test_the_description_of_a_field_is_no_code(copy: Path) -> None:
    before, path = CodeDigests(copy)(FOURIER), copy / "encodings/fourier.py"
    path.write_text(path.read_text().replace("a positive length in patches", "a length above 0, in patches"))
    assert CodeDigests(copy)(FOURIER) == before


def test_files_of_other_recipes_and_files_without_numbers_do_not_count(copy: Path) -> None:
    before = CodeDigests(copy)(FOURIER)
    names = [str(file.relative_to(copy)) for file in copy.rglob("*.py")]
    for name in [*(name for name in names if not computes(name)), *OTHERS]:
        with (copy / name).open("a") as file:
            file.write("\nSPARE = 1\n")
        assert CodeDigests(copy)(FOURIER) == before, name


def test_a_file_that_is_no_python_is_named(copy: Path) -> None:
    (copy / "encodings/fourier.py").write_text("def half(:\n")
    with pytest.raises(SourceError, match=r"encodings/fourier\.py is no Python: line 1: "):
        CodeDigests(copy)(FOURIER)
