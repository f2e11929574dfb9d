"""The code that computed an answer, as digests of syntax trees.

An answer counts only where the code that computes its numbers is today's. Specs, the catalog and the worker are left
out: what they say is in the key or changes no number (a test holds the list true).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

from trainables.backbones import BACKBONES
from trainables.catalog import EncodingSpec, OwnEncoding, leaves
from trainables.encodings import ENTRIES, MODULES
from trainables.enters import Add, CodeSpec
from trainables.recipe import DRLoc, NoTeacher, Recipe, TaughtByFile
from trainables.source import fingerprint
from trainables.spec import Spec, digest

ALWAYS = (
    "checkpoint.py", "data.py", "encoding.py", "enters.py", "host.py", "indices.py", "initial.py", "objective.py",
    "optimiser.py", "score.py", "streams.py", "train.py",
)  # fmt: skip
"""Files that compute the numbers of every run. Paths are relative to `trainables/`."""

NEVER = (
    "__init__.py", "backbones/__init__.py", "bridge.py", "catalog.py", "code.py", "data_spec.py", "encoding_spec.py",
    "encodings/__init__.py", "failure.py", "layer_sizes.py", "model_spec.py", "objective_spec.py", "outcome.py",
    "own.py", "pair_specs.py", "recipe.py", "source.py", "spec.py", "staged_specs.py", "start.py", "task.py",
    "trunk_specs.py", "weight.py", "worker.py",
)  # fmt: skip
"""Files whose content is in the key, or changes no number."""

STARTS = {name: ("pretrained.py",) for name in ("from_file", "from_timm")}
"""Files that bring weights from elsewhere, by the kind of the start."""


class Code(Spec):
    """Digests of the files that compute a run's numbers, by name."""

    files: dict[str, str]

    @property
    def digest(self) -> str:
        """12 hex digits that name this code."""
        return digest(self.files, 12)

    def changed(self, other: Code) -> list[str]:
        """The files in which two codes differ."""
        return sorted(name for name in {*self.files, *other.files} if self.files.get(name) != other.files.get(name))


class Codes:
    """Today's code of any recipe; every file is read once. Cost: 20 ms for the first recipe."""

    def __init__(self) -> None:
        self._read: dict[str, str] = {}
        self._imported = cache(_imports)

    def __call__(self, recipe: Recipe) -> Code:
        """The code that would compute a recipe's numbers, its parents' included."""
        names: set[str] = set(ALWAYS)
        own: dict[str, list[str]] = {}
        for node in _line(recipe):
            names.add(f"{node.data.kind}.py")
            begun = {trunk_file(node.model.kind), *STARTS.get(node.start.kind, ())}
            names.update(_with_imports(begun | _encoding_files(node.encoding), self._imported))
            names.update(objective_files(node))
            for name, source in _sources(node.encoding):
                own.setdefault(name, []).append(fingerprint(source))
        files = {f"trainables/{name}": self._fingerprint(name) for name in sorted(names)}
        return Code(files=files | {name: _one(found) for name, found in sorted(own.items())})

    def _fingerprint(self, name: str) -> str:
        if name not in self._read:
            self._read[name] = fingerprint((Path(__file__).parent / name).read_text())
        return self._read[name]


def trunk_file(kind: str) -> str:
    """The file that computes a trunk."""
    return f"backbones/{BACKBONES[kind].partition(':')[0]}.py"


def encoding_files(encoding: EncodingSpec) -> set[str]:
    """The files that compute an encoding: of its kinds, of how codes enter, and what they import."""
    return _with_imports(_encoding_files(encoding), _imports)


def _encoding_files(encoding: EncodingSpec) -> set[str]:
    classes = {MODULES[part.kind] for part in leaves(encoding) if part.kind in MODULES}
    specs = [part.spec if isinstance(part, OwnEncoding) else part for part in leaves(encoding)]
    enters = [spec.enters for spec in specs if isinstance(spec, CodeSpec)]
    classes |= {ENTRIES[how.kind] for how in enters if how != Add()}
    return {f"encodings/{name.partition(':')[0]}.py" for name in classes}


def objective_files(recipe: Recipe) -> set[str]:
    """The files of what a recipe's training adds to its task, and to its test."""
    files = {
        "transfer.py": bool(recipe.sizes),
        "drloc.py": isinstance(recipe.auxiliary, DRLoc),
        "distillation.py": not isinstance(recipe.teacher, NoTeacher),
        "weights_file.py": isinstance(recipe.teacher, TaughtByFile),
    }
    return {file for file, used in files.items() if used}


def _line(recipe: Recipe) -> Iterator[Recipe]:
    """A recipe, and all from which it learns: its parent, its teacher, theirs."""
    yield recipe
    for other in (recipe.parent, recipe.master):
        if other is not None:
            yield from _line(other)


def _with_imports(files: set[str], imports: Callable[[str], set[str]]) -> set[str]:
    """Files with all that they import of this folder and that is not on the lists above."""
    found: set[str] = set()
    while files:
        found |= files
        files = {imported for file in files for imported in imports(file)} - found - {*ALWAYS, *NEVER}
    return found


def _imports(file: str) -> set[str]:
    folder = Path(__file__).parent
    tree = ast.parse((folder / file).read_text())
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    modules = {node.module or "" for node in nodes}
    modules |= {f"trainables.{one.name}" for node in nodes if node.module == "trainables" for one in node.names}
    inside = {module.removeprefix("trainables.").replace(".", "/") for module in modules}
    return {f"{name}.py" for name in inside if (folder / f"{name}.py").is_file()}


def _sources(encoding: EncodingSpec) -> list[tuple[str, str]]:
    own = (part for part in leaves(encoding) if isinstance(part, OwnEncoding))
    return [(part.kind.partition(":")[0], part.source) for part in own]


def _one(found: list[str]) -> str:
    """One digest of a file's: where a recipe and its parents hold several versions of it, of them all in order."""
    return found[0] if len({*found}) == 1 else digest(found)
