"""The code that computed an answer, as digests of syntax trees.

An answer counts only if the code that computes its numbers is today's. The files follow from the recipe: the
training loop, and for each kind in use its spec, its torch half, and all files that they import. A user's own file
counts by its text, and by the files of this package that it imports and uses outside its `study`: under the name that
`service` gives too, and all files of a package that it uses as a whole (`from trainables.encodings import *`).
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from functools import cache, cached_property, lru_cache
from glob import glob
from pathlib import Path

from trainables.backbones import OwnModel, ViT
from trainables.data.augment import NoAugment
from trainables.encodings import OwnEncoding, parts_of
from trainables.recipe.init_from import FromFile, FromTimm
from trainables.recipe.losses import DRLoc, NoTeacher, TaughtByFile
from trainables.recipe.optimizer import AdamW
from trainables.recipe.recipe import Recipe
from trainables.source import fingerprint, tree_fingerprint, used_imports, without_study
from trainables.spec import Spec, digest

LOOP = ("training/loop.py", "training/runtime.py")
"""Where every training begins, and what sets threads and precision for it. Paths are relative to `trainables/`."""

COMPUTING = (
    "backbones/*", "data/*", "encodings/*", "training/*", "weights/*",
    "recipe/evaluation.py", "recipe/model_torch.py", "rng_torch.py",
)  # fmt: skip
"""The files that may compute a number of a run; those that a recipe reaches do. All other files say what a recipe is,
which is in its key, or launch and look at runs. What a placement chooses changes the last digits; it is in the
environment of an answer."""

FOLDER = Path(__file__).parents[1]
PUBLIC = FOLDER.parent / "service" / "public.py"
"""This file says where each name of `service` comes from."""


def computes(file: str) -> bool:
    """Returns whether a file of `trainables/` may compute a number of a run; a package's list never does."""
    return not file.endswith("__init__.py") and any(fnmatch(file, pattern) for pattern in COMPUTING)


class CodeDigest(Spec):
    """Digests of the files that compute a run's numbers, by name."""

    files: dict[str, str]

    @property
    def digest(self) -> str:
        """12 hex digits that name this code."""
        return digest(self.files, 12)

    def changed(self, other: CodeDigest) -> list[str]:
        """Returns the files in which two codes differ."""
        return sorted(name for name in {*self.files, *other.files} if self.files.get(name) != other.files.get(name))


class CodeDigests:
    """Today's code of any recipe; every file is read once. Cost: 20 ms for the first recipe."""

    def __init__(self, folder: Path | None = None) -> None:
        self._folder = folder or FOLDER
        self._recipes: dict[int, tuple[Recipe, CodeDigest]] = {}
        self._module = cache(lambda name: _parsed(self._folder / name))
        self._imports = cache(self._imports_of)
        self._reached = cache(lambda roots: self._closure(roots, computes))
        self._code = cache(self._code_of)

    @cached_property
    def _paths(self) -> frozenset[str]:
        """The files that there are: one look at the folder costs less than a look at each name of each import."""
        return frozenset(glob("**/*.py", root_dir=self._folder, recursive=True))

    def __call__(self, recipe: Recipe) -> CodeDigest:
        """Returns the code that would compute a recipe's numbers, its parents' included."""
        if id(recipe) not in self._recipes:
            digests: dict[str, list[str]] = {}
            for node in _with_parents(recipe):
                for file, source in _sources(node):
                    digests.setdefault(file, []).append(fingerprint(source))
            # parents may hold other versions of a file: then one digest of all of them, in order
            files = {file: each[0] if len({*each}) == 1 else digest(each) for file, each in sorted(digests.items())}
            code = self._code(self._begins(recipe), tuple(files.items()))
            self._recipes[id(recipe)] = recipe, code  # the recipe is kept, and so is its id
        return self._recipes[id(recipe)][1]

    def _code_of(self, begins: frozenset[str], own_files: tuple[tuple[str, str], ...]) -> CodeDigest:
        """Returns the code of all recipes that begin in the same files, and have the same files of their own."""
        files = {f"trainables/{name}": self._module(name).fingerprint for name in self._reached(begins)}
        return CodeDigest(files=files | dict(own_files))

    def files(self, recipe: Recipe) -> list[str]:
        """Returns the files of `trainables/` that compute a recipe's numbers, relative to `trainables/`."""
        return self._reached(self._begins(recipe))

    def _begins(self, recipe: Recipe) -> frozenset[str]:
        """Returns the files where the computation of a recipe's numbers begins, its parents' included.

        They include the files that a user's own file uses, and the torch halves of those.
        """
        files: set[str] = set()
        for node in _with_parents(recipe):
            files |= {*_roots(node)}
            for file, source in _sources(node):
                names = [origin for name in used_imports(without_study(source, file)) for origin in _origins(name)]
                for path in {path for name in names for path in self._defining(name)}:
                    files |= {path, path.replace(".py", "_torch.py")} & self._paths
        return frozenset(files)

    def of_probe(self, name: str) -> CodeDigest:
        """Returns the files of `probes/` that compute a probe: that of its name, and those that it imports."""
        files = self._closure({f"probes/{name}.py"}, lambda file: file.startswith("probes/"))
        return CodeDigest(files={f"trainables/{file}": self._module(file).fingerprint for file in files})

    def _closure(self, roots: Iterable[str], counts: Callable[[str], bool]) -> list[str]:
        reached: set[str] = set()
        todo = {*filter(counts, roots)}
        while todo:
            reached |= todo
            todo = {file for done in todo for file in self._imports(done) if counts(file)} - reached
        return sorted(reached)

    def _imports_of(self, name: str) -> frozenset[str]:
        """Returns the files of `trainables/` that a file imports when it is imported itself."""
        imports = [pair for pair in self._module(name).imports if pair[0].partition(".")[0] == "trainables"]
        return frozenset(self._file(module, imported) for module, names in imports for imported in names)

    def _defining(self, name: str) -> set[str]:
        """Returns the file that defines a dotted name; all files of a package for it, and for what its list makes."""
        module, *rest = name.split(".")
        init = "__init__.py"
        for part in rest:
            file = self._file(module, part)
            if not file.endswith("__init__.py"):
                return {file}
            if file == init:
                break
            module, init = f"{module}.{part}", file
        return {file for file in self._paths if file.startswith(init.removesuffix("__init__.py"))}

    def _file(self, module: str, name: str) -> str:
        """Returns the file that defines a name imported from a module.

        It follows the import if a package's `__init__.py` only imports the name; that file defines all other names.
        """
        inside = module.replace(".", "/").removeprefix("trainables").lstrip("/")
        if f"{inside}.py" in self._paths:
            return f"{inside}.py"
        for path in (f"{inside}/{name}.py", f"{inside}/{name}/__init__.py"):
            if path.lstrip("/") in self._paths:
                return path.lstrip("/")
        init = f"{inside}/__init__.py".lstrip("/")
        if init not in self._paths:  # an edit took it away
            return init
        for imported, names in self._module(init).imports:
            if name in names:
                return self._file(imported, name)
        return init


@dataclass(frozen=True)
class _Module:
    """What counts of a file: its fingerprint, and from which module its `from` lines at the top take which names."""

    fingerprint: str
    imports: tuple[tuple[str, tuple[str, ...]], ...]


def _parsed(path: Path) -> _Module:
    return _parsed_text(path.read_text(encoding="utf-8"), str(path))


@lru_cache(maxsize=512)
def _parsed_text(text: str, path: str) -> _Module:
    """It is kept: a process asks for its codes many times, and files change seldom."""
    tree = without_study(text, path)
    lines = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    imports = tuple((line.module or "", tuple(alias.name for alias in line.names)) for line in lines)
    return _Module(tree_fingerprint(tree), imports)


def _origins(name: str) -> list[str]:
    """Returns the dotted names of `trainables` that a name of any module stands for: all, for `service` as a whole."""
    room, *rest = name.split(".")
    if room == "trainables":
        return [name]
    if room != "service":
        return []
    imports = _parsed(PUBLIC).imports
    public = [(module, each) for module, names in imports for each in names if module.startswith("trainables.")]
    used = [part for part in rest if part != "public"][:1]
    return [f"{module}.{each}" for module, each in public if not used or [each] == used]


def _roots(recipe: Recipe) -> Iterator[str]:
    """Yields the files where the computation of a recipe's numbers begins, its parents left out."""
    yield from LOOP
    for spec in (recipe.model, recipe.data, *parts_of(recipe.encoding)):
        if not isinstance(spec, OwnEncoding):
            path = type(spec).__module__.partition(".")[2].replace(".", "/")
            yield from (file for file in (f"{path}.py", f"{path}_torch.py") if (FOLDER / file).is_file())
    if isinstance(recipe.model, OwnModel):
        yield "training/own_model.py"
    if isinstance(recipe.init, FromFile | FromTimm):
        yield "weights/pretrained.py"
    if isinstance(recipe.model, ViT) and recipe.model.drop_path:
        yield "backbones/drop_path_torch.py"
    if not isinstance(recipe.optimizer, AdamW):
        yield "training/optional/timm_optimizers.py"
    if recipe.optimizer.layer_decay is not None:
        yield "training/optional/layer_decay.py"
    if recipe.optimizer.ema_decay is not None:
        yield "training/optional/ema.py"
    if recipe.test_sizes:
        yield "weights/transfer.py"
    if isinstance(recipe.auxiliary, DRLoc):
        yield "training/optional/drloc.py"
    if not isinstance(recipe.augment, NoAugment):
        yield "data/augment_torch.py"
    if not isinstance(recipe.teacher, NoTeacher):
        yield "training/optional/distillation.py"
    if isinstance(recipe.teacher, TaughtByFile):
        yield "weights/files.py"


def _with_parents(recipe: Recipe) -> Iterator[Recipe]:
    yield recipe
    for other in (recipe.parent, recipe.teacher_recipe):
        if other is not None:
            yield from _with_parents(other)


def _sources(recipe: Recipe) -> list[tuple[str, str]]:
    return [(part.kind.partition(":")[0], part.source) for part in recipe.own_parts]
