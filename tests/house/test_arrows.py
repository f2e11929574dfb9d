"""Arrows and doors, read from the syntax trees: who imports whom, and where each framework comes in.

Each rule looks at all files and lists those that break it.
"""

import ast
from collections.abc import Callable
from pathlib import PurePosixPath

import pytest

from tests.house.sources import ROOMS, ROOT, Source, sources

LIGHT = ("torch", "timm", "ray", "optuna", "mlflow", "numpy", "pandas", "scipy", "matplotlib", "sklearn", "torchvision")
DOORS = {
    "ray.tune": {"service/execution/tune.py", "service/execution/watchdog.py"},
    "ray.train": {"trainables/launch/group.py", "trainables/launch/worker.py"},
    "ray.job_submission": {"service/execution/jobs.py"},
    "optuna": {"service/planning/sampling.py"},
}
RAY = DOORS["ray.tune"] | DOORS["ray.job_submission"]
RAY |= {"service/execution/ray_session.py"} | DOORS["ray.train"]
MLFLOW = "service/tracking/"
HEAVY_ROOMS = ("training", "weights", "probes", "launch")
"""Rooms of trainables/ that may import torch in every file."""
HEAVY_SPECS = ("launch.job.Job", "launch.errors.CHANGED")
"""What lies in a heavy room and is light."""

ORDER = {
    "trainables": (
        ("cgroup", "errors", "kept", "polling", "sentence", "watched"),
        ("spec", "trusted", "whole_files"),
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
        (
            "results",
            "removal",
            "doctor",
            "consistency",
            "recording",
            "own_images",
            "callbacks",
        ),
        ("run_study",),
        ("api",),
        ("public",),
        ("commands",),
        ("cli",),
        ("__main__",),
    ),
}
"""The rooms and single files of a package, those that others may import first; one row imports nothing of its own."""

LIGHT_SERVICE = (
    "service/storage/",
    "service/planning/",
    "service/terminal/",
    "service/analysis/study_status.py",
    "service/analysis/trial_result.py",
    "service/analysis/best.py",
    "service/analysis/statistics.py",
    "service/analysis/power.py",
    "service/execution/driver.py",
    "service/__init__.py",
    "service/cli.py",
    "service/api.py",
)
"""What of service/ imports none of LIGHT when it is imported; inside a function it may."""

LISTS = {"trainables/encodings", "trainables/backbones", "trainables/data"}
LISTS |= {"search_spaces/studies"}
"""Folders that list kinds or studies, a file or a pair each."""
FILES_A_FOLDER, LINES_A_FILE = 25, 500
VAGUE = {"utils", "util", "common", "helpers", "helper", "base", "manager", "wrapper", "misc"}
DESCRIBES = ("Composed.model_rebuild", "main")
"""The only calls that may stand alone at the top of a module: they describe, and change nothing else."""


def is_light(source: Source) -> bool:
    if source.parts[-1].endswith("_torch") or source.name in DOORS["optuna"]:
        return False
    if source.parts[0] == "service":
        return source.name.startswith(LIGHT_SERVICE)
    return source.parts[0] == "search_spaces" or source.parts[1] not in HEAVY_ROOMS


def is_of(module: str, framework: str) -> bool:
    return module == framework or module.startswith(f"{framework}.")


def test_every_entry_of_the_lists_matches_a_file() -> None:
    """An entry that matches nothing guards nothing."""
    names = {source.name for source in sources()}
    folders = {str(folder) for name in names for folder in PurePosixPath(name).parents}
    listed = RAY.union(*DOORS.values()) | {f"trainables/{room}" for room in HEAVY_ROOMS} | LISTS | set(LIGHT_SERVICE)
    listed |= {f"{package}/{room}" for package, rows in ORDER.items() for row in rows for room in row}
    listed |= {f"trainables/{spec.rpartition('.')[0].replace('.', '/')}" for spec in HEAVY_SPECS}
    there = names | folders | {f"{folder}/" for folder in folders}
    assert [entry for entry in listed if not {entry, f"{entry}.py"} & there] == []
    by_name = {source.name: source for source in sources()}
    unused = [
        (framework, door)
        for framework, doors in {**DOORS, "ray": RAY}.items()
        for door in doors
        if not any(is_of(module, framework) for module in by_name[door].imports)
    ]
    assert unused == [], "a door through which nothing comes"


def test_every_room_has_a_place_in_the_order() -> None:
    placed = {package: {room for row in rows for room in row} for package, rows in ORDER.items()}
    found = {(source.parts[0], source.parts[1]) for source in sources() if source.parts[0] in ORDER}
    assert [(package, room) for package, room in found if room not in placed[package] | {"__init__"}] == []


def is_absolute(source: Source, module: str) -> bool:
    return module[0] != "."


def is_of_its_package_or_of_one_before(source: Source, module: str) -> bool:
    return module.partition(".")[0] not in (*ROOMS[ROOMS.index(source.parts[0]) + 1 :], "tests")


def comes_through_its_door(source: Source, module: str) -> bool:
    return not (
        any(is_of(module, framework) and source.name not in doors for framework, doors in DOORS.items())
        or (is_of(module, "ray") and source.name not in RAY)
        or (is_of(module, "mlflow") and not source.name.startswith(MLFLOW))
    )


def is_as_light_as_its_file(source: Source, module: str) -> bool:
    """No framework, nor a file of the house that imports one: a torch half, or a file of a heavy room."""
    if not is_light(source) or module not in source.imports_at_top:
        return True
    package, _, rest = module.partition(".")
    torch_half = any(part.endswith("_torch") for part in rest.split("."))
    heavy_room = rest.partition(".")[0] in HEAVY_ROOMS and rest not in HEAVY_SPECS
    return package not in LIGHT and not (package == "trainables" and (torch_half or heavy_room))


def brings_torch_into_torch_halves_and_heavy_rooms_alone(source: Source, module: str) -> bool:
    """Inside a function, too: who needs torch there calls a torch half."""
    may = source.parts[0] == "service" or source.parts[-1].endswith("_torch") or source.parts[1] in HEAVY_ROOMS
    return may or module.partition(".")[0] not in ("torch", "timm", "torchvision")


def is_of_its_room_or_of_one_before(source: Source, module: str) -> bool:
    """Types alone (TYPE_CHECKING) count, too."""
    package, room = (*module.split("."), "")[:2]
    rows = {name: row for row, rooms in enumerate(ORDER.get(package, ())) for name in rooms}
    if package != source.parts[0] or room not in rows or source.parts[1] not in rows:
        return True
    return room == source.parts[1] or rows[room] < rows[source.parts[1]]


RULES = (
    is_absolute, is_of_its_package_or_of_one_before, comes_through_its_door, is_as_light_as_its_file,
    brings_torch_into_torch_halves_and_heavy_rooms_alone, is_of_its_room_or_of_one_before,
)  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_every_import(rule: Callable[[Source, str], bool]) -> None:
    imports = [(source, module) for source in sources() for module in source.imports]
    assert [(source.name, module) for source, module in imports if not rule(source, module)] == []


def test_files_stay_small_and_rooms_are_not_too_full() -> None:
    folders = [source.folder for source in sources()]
    assert [name for name in {*folders} - LISTS if folders.count(name) > FILES_A_FOLDER] == []
    assert [source.name for source in sources() if len(source.text.splitlines()) > LINES_A_FILE] == []
    assert [source.name for source in sources() if source.parts[-1] in VAGUE] == [], "its name says nothing"


def test_importing_a_file_has_no_effect() -> None:
    wrong = [
        (source.name, ast.unparse(node))
        for source in sources()
        for node in source.tree.body
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        if not ast.unparse(node.value.func).startswith(DESCRIBES)
    ]
    assert wrong == []


def test_the_tests_of_rooms_mirror_the_rooms() -> None:
    """Each room with code has a folder of tests of the same path, and no folder of tests is for a room that is gone."""
    tests = ROOT / "tests" / "rooms"
    mirrored = {str(file.parent.relative_to(tests)) for file in tests.rglob("test_*.py")}
    rooms = {source.folder for source in sources() if source.parts[-1] != "__init__"}
    assert mirrored <= rooms
    assert {room for room in rooms if room.count("/") == 1} - mirrored <= LISTS


def test_no_files_import_each_other_in_a_circle() -> None:
    """Types count, too; a package's own list is left out, for it only passes names on."""
    modules = {source.module: source for source in sources() if source.parts[-1] != "__init__"}
    uses = {
        module: {
            known
            for name in source.imports
            for known in (name, name.rpartition(".")[0])
            if known in modules and known != module
        }
        for module, source in modules.items()
    }
    before: int | None = None
    while before != len(uses):
        before = len(uses)
        used = set().union(*uses.values())
        uses = {module: found & uses.keys() for module, found in uses.items() if found & uses.keys() and module in used}
    assert not uses
