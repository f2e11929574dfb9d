"""How large the house is: `python -m tests.house.size` prints each number beside the bar that it should not pass."""

from __future__ import annotations

import ast
from statistics import median

from tests.house.sources import ROOT

BARS = {"service": (17_500, 110), "trainables": (12_500, None), "search_spaces": (None, None), "tests": (30_000, None)}
"""Of each room the most lines and the most files."""
IMPORTS = 0.08
"""The most of the lines of `service/` that may be imports."""


def measured(room: str) -> dict[str, float]:
    """Returns files, lines, the share of imports, and the medians of a function and a file, in lines."""
    texts = [file.read_text() for file in sorted((ROOT / room).rglob("*.py")) if "__pycache__" not in file.parts]
    nodes = [node for text in texts for node in ast.walk(ast.parse(text))]
    lines = [len(text.splitlines()) for text in texts]
    functions = [_lines(node) for node in nodes if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    imports = sum(_lines(node) for node in nodes if isinstance(node, ast.Import | ast.ImportFrom))
    return {
        "files": len(texts),
        "lines": sum(lines),
        "imports": imports / sum(lines),
        "lines of the median function": median(functions),
        "of the median file": median(lines),
    }


def _lines(node: ast.stmt) -> int:
    assert node.end_lineno is not None
    return node.end_lineno - node.lineno + 1


def main() -> None:
    """Prints a line a room: what is measured, and the most that it should be."""
    for room, (lines, files) in BARS.items():
        found, bars = (
            measured(room),
            {"files": files, "lines": lines, "imports": IMPORTS if room == "service" else None},
        )
        parts = []
        for name, value in found.items():
            show = "{:.2%}" if name == "imports" else "{:,.0f}"
            bar = bars.get(name)
            parts.append(f"{name} {show.format(value)}" + (f" (at most {show.format(bar)})" if bar else ""))
        print(f"{room}: {', '.join(parts)}")


if __name__ == "__main__":
    main()
