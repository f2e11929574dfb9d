"""Python source as a value: loaded under its digest, compared by its syntax tree.

A user's own file (`mine.py`) travels as text inside specs. Every process that needs it loads it once, as a module whose
name is the digest of its text, so that two versions never mix.
"""

from __future__ import annotations

import ast
import hashlib
import linecache
import os
import sys
import threading
import types
import warnings
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, nullcontext
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import decode_source, find_spec
from pathlib import Path
from typing import Any

from trainables import trusted
from trainables.spec import LocusError, SpecError

LOCUS = {"service", "search_spaces", "trainables"}


class SourceError(LocusError):
    """A user's file that fails when it runs."""


def load(file: str, source: str, *, again: bool = False) -> types.ModuleType:
    """Returns the module of a source text. While it is being loaded, it has the attribute `__loading__`.

    A text runs once in a process. `again`: it runs once more. The files that it reads may have changed. What it sets in
    the filters of warnings and in numpy's handling of errors is undone; `runtime` sets what torch computes with.

    Raises: SourceError with the file and the line where it fails; UntrustedError if it comes from a home and nobody
    here has run it.
    """
    sha256 = sha256_of(file, source)
    name = f"own_{sha256[:16]}"
    is_loaded = name in sys.modules
    if is_loaded and not again:
        return sys.modules[name]
    trusted.check(file, sha256)
    module = types.ModuleType(name)
    module.__file__ = file
    module.__dict__.update(__source__=source, __loading__=True)
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    sys.modules[name] = module
    try:
        with warnings.catch_warnings(), import_module("numpy").errstate() if "numpy" in source else nullcontext():
            exec(compile(source, file, "exec"), module.__dict__)
    except KeyboardInterrupt:
        del sys.modules[name]
        raise
    except LocusError as error:
        del sys.modules[name]
        raise SourceError(f"{file}, {_where(error, file)}{error}") from error
    except BaseException as error:
        del sys.modules[name]
        why = f"{_where(error, file)}{type(error).__name__}: {error}"
        if isinstance(error, ImportError) and Path(f"{error.name}.py").is_file():
            why += f"; it must use installed packages only: put the code of {error.name}.py into {file}"
        raise SourceError(f"{file} does not run: {why}") from error
    del module.__dict__["__loading__"]
    return module


@contextmanager
def noted_reads(files: Collection[str]) -> Iterator[dict[str, str]]:
    """Gives the paths that users' code reads inside the `with` block, each with the file whose code reads it.

    Modules and what lies in installed packages are left out, as is what is read without Python's own `open`.
    """
    _install_open_hook()
    _LISTENING.append((files, noted := dict[str, str]()))
    try:
        yield noted
    finally:
        _LISTENING.remove((files, noted))


_LISTENING: list[tuple[Collection[str], dict[str, str]]] = []


@cache
def _install_open_hook() -> None:
    """Makes Python call `hear` for each file that this process opens. A hook cannot be removed, so there is one."""
    elsewhere = (f"{sys.prefix}/", f"{sys.base_prefix}/", "/proc/", "/sys/", "/dev/")

    def hear(event: str, args: tuple[Any, ...]) -> None:
        if event != "open" or not _LISTENING or not isinstance(args[0], str | bytes | os.PathLike):
            return
        path, mode = os.fsdecode(args[0]), str(args[1] or "r")
        if "r" not in mode or path.endswith((".py", ".pyc")) or os.path.abspath(path).startswith(elsewhere):
            return
        frame: types.FrameType | None = sys._getframe(1)
        while frame is not None and "importlib" not in (running := frame.f_code.co_filename):
            for files, noted in _LISTENING:
                if running in files:
                    noted.setdefault(path, running)
            frame = frame.f_back

    sys.addaudithook(hear)


def text_of(path: Path) -> str:
    """Returns the text of a file of Python, in the encoding that it names. Raises: SourceError if it has another."""
    try:
        return decode_source(path.read_bytes())
    except (SyntaxError, UnicodeDecodeError) as error:
        must = f"{path} must be text in UTF-8, or in the encoding that its first line names"
        raise SourceError(f"{must}: {error}") from None


def sha256_of(file: str, source: str) -> str:
    """Returns what a source text is known by."""
    return hashlib.sha256(f"{file}\n{source}".encode()).hexdigest()


def _where(error: BaseException, file: str) -> str:
    line = getattr(error, "lineno", None)
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename == file:
            line = trace.tb_lineno
        trace = trace.tb_next
    return f"line {line}: " if line else ""


PARSING = threading.RLock()
"""Held while a file is parsed. CPython 3.11 counts the depth of all trees that are being built in one number,
so two threads that parse at the same time can end in a SystemError: the live screen and the driver both ask for codes.
"""


@lru_cache(maxsize=512)
def fingerprint(source: str, file: str = "<source>") -> str:
    """Returns hex digits that change only if code does.

    Comments, docstrings, layout, descriptions of fields and a `study = ...` change nothing.
    Raises: SourceError with the file and the line where the text is no Python.
    """
    parts: list[str] = []
    _add_shape(without_study(source, file), parts.append)
    return hashlib.sha256("".join(parts).encode()).hexdigest()[:16]


def without_study(source: str, file: str) -> ast.Module:
    """Returns the syntax tree of a file's text without its `study = ...`. Raises: SourceError as `fingerprint` does."""
    try:
        with PARSING:
            tree = ast.parse(source, file)
    except SyntaxError as error:
        raise SourceError(f"{file} is no Python: line {error.lineno}: {error.msg}") from None
    tree.body = [
        node
        for node in tree.body
        if not (isinstance(node, ast.Assign) and [ast.unparse(target) for target in node.targets] == ["study"])
    ]
    return tree


def _used_modules(tree: ast.Module) -> set[str]:
    """Returns the top modules of all that a file imports and uses, anywhere in it."""
    names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} | {"*"}
    imports: set[tuple[str, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            imports |= {(alias.asname or alias.name, node.module or "") for alias in node.names}
        elif isinstance(node, ast.Import):
            imports |= {(alias.asname or alias.name.partition(".")[0], alias.name) for alias in node.names}
    return {module.partition(".")[0] for name, module in imports if name in names}


@lru_cache(maxsize=512)
def require_installed(file: str, source: str) -> None:
    """Refuses a file that uses a module which neither Python, locus nor an installed package has, beside its `study`.

    Only the file itself travels, and only its text counts. The version of an installed package is in no digest, and
    what `importlib` imports is not seen.
    Raises: SpecError that names the modules.
    """
    modules = _used_modules(without_study(source, file))
    strange = sorted(top for top in modules - LOCUS - sys.stdlib_module_names if not _installed(top))
    if strange:
        how = f"put its code into {file}, or install it as a package (pip install, without -e)"
        raise SpecError(f"{file} must use installed packages only, got {', '.join(strange)}: {how}")


def _installed(module: str) -> bool:
    """Returns whether a module lies where packages are installed. One that is not there fails when it is imported."""
    try:
        spec = find_spec(module)
    except ValueError:  # a script, `__main__`, has none
        return False
    paths = (spec.submodule_search_locations or [spec.origin or ""]) if spec else []
    return all({"site-packages", "dist-packages"} & {*Path(path).parts} for path in paths)


def _add_shape(node: Any, add: Callable[[str], None]) -> None:
    """Adds a syntax tree as text, without docstrings and empty fields (which differ between versions of Python)."""
    if isinstance(node, ast.AST):
        add(type(node).__name__ + "(")
        comma = ""
        for name in node._fields:
            value = getattr(node, name, None)
            if name == "keywords" and isinstance(node, ast.Call):
                value = [keyword for keyword in node.keywords if keyword.arg != "description"]
            if value is not None and value != []:
                add(f"{comma}{name}=")
                _add_shape(value, add)
                comma = ","
        add(")")
    elif isinstance(node, list):
        add("[")
        for index, item in enumerate(item for item in node if not _is_docstring(item)):
            if index:
                add(",")
            _add_shape(item, add)
        add("]")
    else:
        add(repr(node))


def _is_docstring(node: Any) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
