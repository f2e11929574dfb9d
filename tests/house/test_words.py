"""The words of the code: every module says what it is, every source says what differs, errors travel."""

import ast
import importlib
import inspect
import pickle

import trainables.encodings
from tests.house.sources import ROOT, Source, sources
from trainables.backbones import OwnModel
from trainables.encodings import KINDS, Composed, EncodingSpec, NoEncoding
from trainables.own import OwnSpec
from trainables.spec import Spec


def documented(source: Source):
    """The file's public classes and functions with their docstrings, the module first."""
    yield source.name, ast.get_docstring(source.tree)
    for node in ast.walk(source.tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef) and not node.name.startswith("_"):
            yield f"{source.name}: {node.name}", ast.get_docstring(node)


def test_every_module_begins_with_a_sentence() -> None:
    ends = (".", "?", "!", ":")
    docs = [(source.name, ast.get_docstring(source.tree) or "") for source in sources()]
    assert [name for name, doc in docs if not doc.split("\n\n")[0].rstrip().endswith(ends)] == []


def test_files_of_text_are_read_and_written_in_utf_8() -> None:
    """By itself Python takes the locale's encoding, which may lack what studies, records and names hold."""
    calls = [(one.name, node) for one in sources() for node in ast.walk(one.tree) if isinstance(node, ast.Call)]
    assert [f"{name}:{call.lineno}" for name, call in calls if _is_of_text(call) and not _names_encoding(call)] == []


def _is_of_text(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    modes = {value.value for value in call.args if isinstance(value, ast.Constant)} & {"r", "w", "a", "x"}
    built_in = isinstance(call.func, ast.Name) and name == "open"
    of_bytes = any(isinstance(value, ast.Constant) and "b" in str(value.value) for value in call.args[1:])
    return (
        (name == "read_text" and not call.args)
        or (name == "write_text" and len(call.args) == 1)
        or (name in ("open", "fdopen") and bool(modes))
        or (built_in and not of_bytes)
        or (
            any(keyword.arg in ("text", "universal_newlines") for keyword in call.keywords) and name in ("run", "Popen")
        )
    )


def _names_encoding(call: ast.Call) -> bool:
    return any(keyword.arg == "encoding" for keyword in call.keywords)


def test_who_names_a_source_says_what_differs() -> None:
    docs = [doc for source in sources() if source.parts[0] == "trainables" for doc in documented(source)]
    sourced = [(owner, doc) for owner, doc in docs if doc and "Source:" in doc]
    assert len(sourced) > 20
    assert [owner for owner, doc in sourced if "Differs:" not in doc] == []


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


def errors() -> dict[str, tuple[Source, ast.ClassDef, list[str]]]:
    """Every error of the house by name: where it is, its definition, and the names of what it derives from."""
    classes = [
        (source, node) for source in sources() for node in ast.walk(source.tree) if isinstance(node, ast.ClassDef)
    ]
    bases = {node.name: [ast.unparse(base).rpartition(".")[2] for base in node.bases] for _, node in classes}

    def ancestors(name: str) -> list[str]:
        return [base for parent in bases.get(name, ()) for base in (parent, *ancestors(parent))]

    return {node.name: (source, node, ancestors(node.name)) for source, node in classes if node.name.endswith("Error")}


def test_no_user_error_is_a_value_error() -> None:
    """Pydantic would wrap it."""
    user_errors = {name: bases for name, (_, _, bases) in errors().items() if "LocusError" in bases}
    assert len(user_errors) > 4
    assert [name for name, bases in user_errors.items() if "ValueError" in bases] == []


def test_every_error_pickles() -> None:
    """One without a constructor of its own does by Python's rule; the others are tried."""
    for source, node, _ in errors().values():
        if {part.name for part in node.body if isinstance(part, ast.FunctionDef)} & {
            "__init__",
            "__new__",
            "__reduce__",
        }:
            cls = getattr(importlib.import_module(source.module), node.name)
            again = pickle.loads(pickle.dumps(cls("encoding.gamma must be positive, got 0")))
            assert (type(again), str(again)) == (cls, "encoding.gamma must be positive, got 0")


def test_specs_are_frozen_and_strict() -> None:
    todo = [Spec]
    while todo:
        cls = todo.pop()
        todo += cls.__subclasses__()
        assert cls.model_config["frozen"], cls
        assert cls.model_config["strict"], cls
        assert cls.model_config["extra"] == (
            "allow" if issubclass(cls, OwnSpec) and cls is not OwnModel else "forbid"
        ), cls


def test_the_encodings_package_looks_light() -> None:
    assert "torch" not in vars(trainables.encodings)
