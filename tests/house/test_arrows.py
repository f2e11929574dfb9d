"""Arrows and doors, read from the syntax trees: who imports whom, and where each framework comes in."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("trainables", "search_spaces", "service")
FILES = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
LIGHT = ("torch", "timm", "ray", "optuna", "mlflow", "numpy", "pandas", "scipy", "matplotlib", "sklearn", "torchvision")
DOORS = {
    "ray.tune": {"service/cluster.py"},
    "ray.train": {"trainables/worker.py"},
    "ray.job_submission": {"service/jobs.py"},
    "ray.dashboard": {"service/jobs.py"},
    "optuna": {"service/sampling.py"},
}
RAY = {"service/cluster.py", "service/jobs.py", "service/token.py", "trainables/worker.py", "trainables/bridge.py"}
LIGHT_FILES = [
    *(f"trainables/{name}.py" for name in ("spec", "catalog", "source", "recipe", "outcome", "code", "task", "weight")),
    *(f"trainables/{name}.py" for name in ("start", "enters", "own", "indices", "layer_sizes", "pair_specs")),
    *(f"trainables/{name}_spec.py" for name in ("encoding", "data", "model", "objective")),
    *(f"trainables/{name}_specs.py" for name in ("trunk", "staged")),
    *(str(file.relative_to(ROOT)) for file in (ROOT / "search_spaces").rglob("*.py")),
    *(
        f"service/{name}.py"
        for name in ("__init__", "cli", "looking", "verbs", "home", "files", "journal", "history", "schedule", "driver")
    ),
    *(f"service/{name}.py" for name in ("editions", "status", "rows", "progress", "plan", "placement", "outcomes")),
]
"""Files that may import none of LIGHT where they are imported; inside a function they may."""


def imports(file: Path, *, top: bool = False) -> list[str]:
    """The modules that a file imports, anywhere or (`top`) where it is imported itself."""
    tree = ast.parse(file.read_text())
    nodes = list(_outside_functions(tree)) if top else list(ast.walk(tree))
    found = [alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names]
    for node in nodes:
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: imports are absolute"
            found += [f"{node.module}.{alias.name}" for alias in node.names]
    return found


def _outside_functions(node: ast.AST):
    for child in ast.iter_child_nodes(node):
        yield child
        typing_only = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not typing_only:
            yield from _outside_functions(child)


def name(file: Path) -> str:
    return str(file.relative_to(ROOT))


@pytest.mark.parametrize("file", FILES, ids=name)
def test_imports_go_one_way(file: Path) -> None:
    room = ROOMS.index(name(file).partition("/")[0])
    later = ROOMS[room + 1 :]
    wrong = [module for module in imports(file) if module.partition(".")[0] in (*later, "tests")]
    assert not wrong


@pytest.mark.parametrize("file", FILES, ids=name)
def test_each_framework_has_one_door(file: Path) -> None:
    for module in imports(file):
        for framework, doors in DOORS.items():
            if module == framework or module.startswith(f"{framework}."):
                assert name(file) in doors, f"{module} is for {', '.join(doors)}"
        if module.partition(".")[0] == "ray":
            assert name(file) in RAY, module
        if module.partition(".")[0] == "mlflow":
            assert name(file).startswith("service/mirror"), module


@pytest.mark.parametrize("path", LIGHT_FILES)
def test_light_files_import_nothing_heavy(path: str) -> None:
    wrong = [module for module in imports(ROOT / path, top=True) if module.partition(".")[0] in LIGHT]
    assert not wrong


@pytest.mark.parametrize("file", FILES, ids=name)
def test_files_stay_small(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 400


@pytest.mark.parametrize("file", FILES, ids=name)
def test_importing_a_file_has_no_effect(file: Path) -> None:
    """No call stands alone at the top of a module but the few that only describe."""
    describes = ("Composed.model_rebuild", "main")
    for node in ast.parse(file.read_text()).body:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            assert ast.unparse(node.value.func).startswith(describes), ast.unparse(node)


@pytest.mark.parametrize("file", FILES, ids=name)
def test_names_say_something(file: Path) -> None:
    assert file.stem not in ("utils", "util", "common", "helpers", "helper", "base", "manager", "wrapper", "misc")
