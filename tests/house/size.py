"""How large the house is: `make size` prints the numbers of each room, and those that pass their bar.

A line is a blank, a comment, an import, a part of a docstring, or code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

from tests.house.sources import ROOT

BARS = {
    "service": {"lines": 21_000, "code": 13_000, "files": 85},
    "trainables": {"lines": 16_500},
    "tests": {"lines": 42_000},
}
"""Of each package the most lines, lines of code and files."""
BODY = (9, 45)
"""The least median of the lines of a function's body in `service`, and the most of its longest twentieth."""
VAGUE = {"place", "known", "words", "own", "asked", "shown", "some", "there", "wanted", "what", "found", "said"}
"""Names that are grammar, and not nouns of a thing."""
COLUMNS = ("files", "lines", "code", "docstrings", "imports", "blank", "functions", "median body", "p95 body", "vague")
DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class Size:
    """The numbers of some files. `bodies`: the lines of each function's body, without its docstring."""

    texts: list[str]

    def __post_init__(self) -> None:
        trees = [ast.parse(text) for text in self.texts]
        self.nodes = [node for tree in trees for node in ast.walk(tree)]
        self.bodies = [_body(node) for node in self.nodes if isinstance(node, DEFINITIONS)]

    def row(self) -> dict[str, float]:
        """The numbers by column; `vague`: the share of all bindings that are no nouns of a thing."""
        lines = [line.strip() for text in self.texts for line in text.splitlines()]
        docstrings = sum(_lines(text) for node in self.nodes for text in _texts(node))
        imports = sum(_lines(node) for node in self.nodes if isinstance(node, ast.Import | ast.ImportFrom))
        blank = lines.count("") - sum(text.value.value.count("\n\n") for node in self.nodes for text in _texts(node))
        comments = sum(line.startswith("#") for line in lines)
        names = list(_bindings(self.nodes))
        numbers = (
            len(self.texts), len(lines), len(lines) - docstrings - imports - blank - comments, docstrings, imports,
            blank, len(self.bodies), median(self.bodies or [0]), quantiles(self.bodies or [0, 0], n=20)[-1],
            sum(name in VAGUE for name in names) / max(1, len(names)),
        )  # fmt: skip
        return dict(zip(COLUMNS, numbers, strict=True))


def _texts(node: ast.AST) -> list[ast.Expr]:
    """The docstrings in a node: its own, and those behind its assignments."""
    body = getattr(node, "body", None)
    if not isinstance(body, list):
        return []
    return [one for one in body if isinstance(one, ast.Expr) and isinstance(getattr(one.value, "value", None), str)]


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def _body(node: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    return sum(map(_lines, node.body[1:] if node.body[0] in _texts(node) else node.body))


def _bindings(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that are bound: variables and parameters."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def sizes() -> Iterator[tuple[str, dict[str, float]]]:
    """Each package and, below it, its rooms."""
    for package in ("service", "trainables", "search_spaces", "tests"):
        yield package, Size(_sources(ROOT / package)).row()
        for room in sorted(path for path in (ROOT / package).iterdir() if path.is_dir()):
            if texts := _sources(room):
                yield f"  {room.name}", Size(texts).row()


def _sources(folder: Path) -> list[str]:
    return [file.read_text() for file in sorted(folder.rglob("*.py")) if "__pycache__" not in file.parts]


def main() -> None:
    """Prints a line a room, then what is above its bar."""
    print(f"{'':18}" + "".join(f"{column:>13}" for column in COLUMNS))
    above = []
    for room, row in sizes():
        shown = [f"{value:.1%}" if column == "vague" else f"{value:,.0f}" for column, value in row.items()]
        print(f"{room:18}" + "".join(f"{value:>13}" for value in shown))
        above += [
            f"{room}: {column} {row[column]:,.0f}, at most {most:,}"
            for column, most in BARS.get(room, {}).items()
            if row[column] > most
        ]
        if room == "service" and (row["median body"] < BODY[0] or row["p95 body"] > BODY[1]):
            above.append(
                f"{room}: a function's body must have a median of {BODY[0]} at least, a p95 of {BODY[1]} at most"
            )
    print("\n".join(above) or "all bars are met")


if __name__ == "__main__":
    main()
