"""A table of a report as LaTeX, with the rules of the package booktabs."""

from __future__ import annotations

from collections.abc import Sequence

from service.reporting.table import Column, Table

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$",
    "\N{MINUS SIGN}": "$-$", "±": r"$\pm$", "²": "$^2$", "×": r"$\times$", "“": "``", "”": "''", "–": "--",
    "\n": " ", "[": "{[}", "*": "{*}",
}  # fmt: skip
"""What LaTeX would read as a command, also at the beginning of a row, or has no letter for."""
WIDE = 40
"""From how many letters on a column of words is broken into lines."""


def escaped(text: str) -> str:
    """A text that LaTeX prints as it is."""
    return "".join(SPECIAL.get(letter, letter) for letter in text)


def latex(table: Table, study: str) -> str:
    """A table environment with caption and label. `study`: the id, part of the label."""
    lines = [f"% study {study}; needs \\usepackage{{booktabs}}", "\\begin{table}", "\\centering"]
    lines += [f"\\caption{{{escaped(table.title)}}}", f"\\label{{tab:{_label(study)}-{table.name}}}"]
    lines += [f"\\begin{{tabular}}{{{''.join(map(_kind, table.columns))}}}", "\\toprule"]
    if table.grouped:
        lines += [_groups(table.groups), _rules(table.groups)]
    lines += [_row([escaped(column.head) for column in table.columns]), "\\midrule"]
    for place, cells in enumerate(table.rows):
        found = [escaped(cell) for cell in cells]
        bold = [f"\\textbf{{{cell}}}" if cell else "" for cell in found]
        lines.append(_row(bold if place in table.strong else found))
    lines += ["\\bottomrule", "\\end{tabular}"]
    if table.note:
        lines += ["", "\\smallskip", f"\\parbox{{\\linewidth}}{{\\footnotesize {escaped(table.note)}}}"]
    return "\n".join([*lines, "\\end{table}", ""])


def _label(study: str) -> str:
    """The id in letters that every TeX takes in a label."""
    return "".join(letter if letter.isalnum() or letter in "-." else "-" for letter in study)


def _kind(column: Column) -> str:
    if not column.words:
        return "r"
    return "p{0.4\\linewidth}" if max(map(len, column.cells), default=0) > WIDE else "l"


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _groups(groups: Sequence[tuple[str, int]]) -> str:
    return _row([f"\\multicolumn{{{span}}}{{c}}{{{escaped(name)}}}" if name else " & " * (span - 1)
                 for name, span in groups])  # fmt: skip


def _rules(groups: Sequence[tuple[str, int]]) -> str:
    """A short line under each head that spans columns."""
    rules, first = [], 1
    for name, span in groups:
        if name:
            rules.append(f"\\cmidrule(lr){{{first}-{first + span - 1}}}")
        first += span
    return "".join(rules)
