"""The words of the code: every module says what it is, every source says what differs, errors travel."""

import ast
import importlib
import inspect
import pickle
import re
from pathlib import Path

import pytest

import trainables.encodings
from trainables.encodings import KINDS, Composed, EncodingSpec, NoEncoding
from trainables.own import OwnSpec
from trainables.spec import LocusError, Spec

ROOT = Path(__file__).parents[2]
FILES = sorted(file for room in ("trainables", "search_spaces", "service") for file in (ROOT / room).rglob("*.py"))
SOURCED = sorted((ROOT / "trainables").rglob("*.py"))


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


def documented(file: Path):
    """The file's public classes and functions with their docstrings, the module first."""
    tree = ast.parse(file.read_text())
    yield file.stem, ast.get_docstring(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield node.name, ast.get_docstring(node)


@pytest.mark.parametrize("file", FILES, ids=name)
def test_every_module_begins_with_a_sentence(file: Path) -> None:
    doc = ast.get_docstring(ast.parse(file.read_text()))
    assert doc
    assert doc.split("\n\n")[0].rstrip().endswith((".", "?", "!", ":"))


@pytest.mark.parametrize("file", SOURCED, ids=name)
def test_who_names_a_source_says_what_differs(file: Path) -> None:
    for owner, doc in documented(file):
        if doc and "Source:" in doc:
            assert "Differs:" in doc, f"{owner} in {name(file)}"


def test_every_encoding_names_its_source() -> None:
    for kind, cls in KINDS.items():
        if cls not in (NoEncoding, Composed):
            assert "Source:" in (cls.__doc__ or ""), kind


def test_the_list_of_encodings_is_complete() -> None:
    """Every spec of the folder is in the union; what owns layers has a torch half with a class of the same name."""
    folder = ROOT / "trainables" / "encodings"
    specs = {
        cls
        for file in folder.glob("*.py")
        if not file.stem.endswith("_torch")
        for _, cls in inspect.getmembers(importlib.import_module(f"trainables.encodings.{file.stem}"), inspect.isclass)
        if issubclass(cls, EncodingSpec) and isinstance(cls.model_fields["kind"].default, str)
    }
    assert specs == set(KINDS.values())
    for kind, cls in KINDS.items():
        half = folder / f"{cls.__module__.rpartition('.')[2]}_torch.py"
        if half.is_file():
            assert inspect.isclass(getattr(importlib.import_module(f"{cls.__module__}_torch"), cls.__name__)), kind


def test_every_field_of_a_spec_says_what_is_legal() -> None:
    for kind, cls in KINDS.items():
        for field, info in cls.model_fields.items():
            if field != "kind":
                assert info.description, f"{kind}.{field}"


def errors() -> list[type[LocusError]]:
    """Every error of a user's, from the files that define one."""
    for file in FILES:
        if re.search(r"^class \w+\(\w*Error\)", file.read_text(), re.MULTILINE):
            importlib.import_module(name(file).removesuffix(".py").replace("/", "."))
    seen, todo = [], [LocusError]
    while todo:
        seen.append(todo.pop())
        todo += [cls for cls in seen[-1].__subclasses__() if cls.__module__.split(".")[0] != "tests"]
    return seen


def test_every_error_pickles_and_no_user_error_is_a_value_error() -> None:
    found = errors()
    assert len(found) > 4
    for cls in found:
        again = pickle.loads(pickle.dumps(cls("encoding.gamma must be positive, got 0")))
        assert (type(again), str(again)) == (cls, "encoding.gamma must be positive, got 0")
        assert not issubclass(cls, ValueError), "pydantic would wrap it"


def test_specs_are_frozen_and_strict() -> None:
    todo = [Spec]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        assert cls.model_config["frozen"], cls
        assert cls.model_config["strict"], cls
        assert cls.model_config["extra"] == ("allow" if issubclass(cls, OwnSpec) else "forbid"), cls


def test_the_encodings_package_looks_light() -> None:
    assert "torch" not in vars(trainables.encodings)
