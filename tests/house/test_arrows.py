"""Arrows and doors, read from the syntax trees: who imports whom, and where each framework comes in."""

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ROOMS = ("trainables", "search_spaces", "service")
FILES = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
LIGHT = ("torch", "timm", "ray", "optuna", "mlflow", "numpy", "pandas", "scipy", "matplotlib", "sklearn", "torchvision")
DOORS = {
    "ray.tune": {f"service/execution/tune/{file}.py" for file in ("run", "adapters", "callbacks", "trial", "asha")},
    "ray.train": {"trainables/launch/worker.py"},
    "ray.job_submission": {"service/execution/jobs/client.py"},
    "ray.dashboard": {"service/execution/jobs/client.py"},
    "optuna": {"service/planning/search/sampling.py", "service/planning/search/importance.py"},
}
RAY = DOORS["ray.tune"] | DOORS["ray.job_submission"]
RAY |= {f"service/execution/tune/{file}.py" for file in ("session", "token", "deaths", "nodes")}
RAY |= {"trainables/launch/worker.py", "trainables/launch/bridge.py"}
HEAVY_ROOMS = ("training", "weights", "probes", "launch")
"""Rooms of trainables/ that may import torch in every file."""

ORDER = {
    "trainables": (
        ("spec",),
        ("source", "rng_torch", "remote_files"),
        ("own",),
        ("encodings",),
        ("backbones", "data"),
        ("recipe",),
        ("weights",),
        ("training",),
        ("probes",),
        ("launch",),
    ),
    "service": (
        ("storage",),
        ("planning",),
        ("analysis",),
        ("execution",),
        ("reporting", "tracking", "terminal"),
        ("repairing",),
        ("results", "consistency", "removal", "trying", "comparing", "steering", "doctor"),
        ("run_study",),
        ("api",),
        ("adhoc",),
        ("public",),
        ("commands",),
        ("cli",),
        ("__main__",),
    ),
}
"""The rooms and single files of a package, those that others may import first; one row imports nothing of its own."""

LIGHT_SERVICE = (
    "storage",
    "planning",
    "analysis/study_status",
    "analysis/trial_summary",
    "analysis/best",
    "analysis/statistics",
    "analysis/power",
    "terminal",
)
LIGHT_FILES = [
    file
    for file in FILES
    if not file.stem.endswith("_torch")
    and (
        file.is_relative_to(ROOT / "search_spaces")
        or (file.is_relative_to(ROOT / "trainables") and file.relative_to(ROOT).parts[1] not in HEAVY_ROOMS)
        or str(file.relative_to(ROOT)).startswith(tuple(f"service/{room}" for room in LIGHT_SERVICE))
        or str(file.relative_to(ROOT)) in ("service/__init__.py", "service/cli.py", "service/api.py")
        or str(file.relative_to(ROOT)) == "service/execution/driver.py"
    )
    and str(file.relative_to(ROOT)) not in DOORS["optuna"]
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
            assert name(file).startswith("service/tracking/"), module


@pytest.mark.parametrize("file", LIGHT_FILES, ids=name)
def test_light_files_import_nothing_heavy(file: Path) -> None:
    """Nor a file of the house that does: a torch half, or a file of a heavy room."""
    for module in imports(file, top=True):
        package, _, rest = module.partition(".")
        assert package not in LIGHT, module
        if package == "trainables":
            assert not any(part.endswith("_torch") for part in rest.split(".")), module
            assert rest.partition(".")[0] not in HEAVY_ROOMS or rest in HEAVY_SPECS, module


HEAVY_SPECS = ("launch.job.Job", "launch.errors.CHANGED")
"""What lies in a heavy room and is light."""


@pytest.mark.parametrize("file", FILES, ids=name)
def test_torch_is_imported_in_torch_halves_and_heavy_rooms_alone(file: Path) -> None:
    """Inside a function, too: who needs torch there calls a torch half."""
    parts = file.relative_to(ROOT).with_suffix("").parts
    if parts[0] != "service" and not (parts[-1].endswith("_torch") or parts[1] in HEAVY_ROOMS):
        wrong = [module for module in imports(file) if module.partition(".")[0] in ("torch", "timm", "torchvision")]
        assert not wrong


def _room(module: str) -> tuple[str, int] | None:
    """A module's package and the place of its room in the order; None for what has none."""
    package, _, rest = module.partition(".")
    for place, rooms in enumerate(ORDER.get(package, ())):
        if rest.partition(".")[0] in rooms:
            return package, place
    return None


@pytest.mark.parametrize("file", FILES, ids=name)
def test_rooms_import_one_way(file: Path) -> None:
    """A room imports the rooms before it, and itself; types alone (TYPE_CHECKING) count, too."""
    here = _room(".".join(file.relative_to(ROOT).with_suffix("").parts))
    for module in imports(file):
        there = _room(module)
        if here and there and here[0] == there[0]:
            assert there[1] <= here[1], f"{name(file)} imports {module}, which stands later"
            same = there[1] == here[1]
            mine, theirs = file.relative_to(ROOT).with_suffix("").parts[1], module.split(".")[1]
            assert not same or mine == theirs, f"{name(file)} imports {module}, which stands beside it"


LISTS = {"trainables/encodings", "trainables/backbones", "trainables/data"}
LISTS |= {"search_spaces/studies", "search_spaces/matrices"}
"""Folders that list kinds, studies or matrices, a file or a pair each."""


def test_rooms_are_few_and_not_too_full() -> None:
    for package in ROOMS:
        folders = [folder for folder in (ROOT / package).rglob("*") if (folder / "__init__.py").is_file()]
        assert len([folder for folder in folders if folder.parent == ROOT / package]) <= 9
        for folder in [ROOT / package, *folders]:
            if name(folder) not in LISTS:
                assert len(list(folder.glob("*.py"))) <= 14, name(folder)


@pytest.mark.parametrize("file", FILES, ids=name)
def test_files_stay_small(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= 350


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


def test_the_tests_of_rooms_mirror_the_rooms() -> None:
    """Each room with code has a folder of tests of the same path, and no folder of tests is for a room that is gone."""
    tests = ROOT / "tests" / "rooms"
    mirrored = {str(file.parent.relative_to(tests)) for file in tests.rglob("test_*.py")}
    rooms = {str(file.parent.relative_to(ROOT)) for file in FILES if file.stem != "__init__"}
    assert mirrored <= rooms
    assert {room for room in rooms if room.count("/") == 1} - mirrored <= LISTS


def _module(file: Path) -> str:
    parts = file.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def test_no_files_import_each_other_in_a_circle() -> None:
    """Types count, too; a package's own list is left out, for it only passes names on."""
    modules = {_module(file): file for file in FILES if file.stem != "__init__"}
    uses = {
        module: {
            known
            for name in imports(file)
            for known in (name, name.rpartition(".")[0])
            if known in modules and known != module
        }
        for module, file in modules.items()
    }
    before: int | None = None
    while before != len(uses):
        before = len(uses)
        used = set().union(*uses.values())
        uses = {module: found & uses.keys() for module, found in uses.items() if found & uses.keys() and module in used}
    assert not uses
