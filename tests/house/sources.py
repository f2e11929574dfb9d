"""All files of the three packages, read and parsed once."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

ROOT = Path(__file__).parents[2]
ROOMS = ("trainables", "search_spaces", "service")


@dataclass(frozen=True)
class Source:
    """A file of the house. `name`: its path from the root, `service/api.py`."""

    name: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.text)

    @property
    def parts(self) -> tuple[str, ...]:
        """`("service", "storage", "home")`."""
        return tuple(self.name.removesuffix(".py").split("/"))

    @property
    def folder(self) -> str:
        return self.name.rpartition("/")[0]

    @property
    def module(self) -> str:
        """`service.storage.home`, a package without its `__init__`."""
        return ".".join(self.parts[:-1] if self.parts[-1] == "__init__" else self.parts)

    @cached_property
    def imports(self) -> tuple[str, ...]:
        """The modules and names that the file imports, anywhere."""
        return tuple(_imported(ast.walk(self.tree)))

    @cached_property
    def imports_at_top(self) -> tuple[str, ...]:
        """What it imports when it is imported itself."""
        return tuple(_imported(_outside_functions(self.tree)))


@cache
def sources() -> tuple[Source, ...]:
    files = sorted(file for room in ROOMS for file in (ROOT / room).rglob("*.py"))
    return tuple(Source(str(file.relative_to(ROOT)), file.read_text()) for file in files)


def _imported(nodes: Iterator[ast.AST]) -> Iterator[str]:
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.ImportFrom):
            yield from (f"{'.' * node.level}{node.module}.{alias.name}" for alias in node.names)


def _outside_functions(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        yield child
        typing_only = isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING"
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) and not typing_only:
            yield from _outside_functions(child)
