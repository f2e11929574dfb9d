"""A table of a report as LaTeX, with the rules of the package booktabs and the columns of the package array."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from service.reporting.table import Column, Table

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"\textbar{}",
    "\N{MINUS SIGN}": "$-$", "±": r"$\pm$", "²": "$^2$", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\le$",
    "≥": r"$\ge$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$", "√": r"$\surd$", "µ": r"$\mu$",
    "“": "``", "”": "''", "‘": "`", "’": "'", "–": "--", "—": "---", "…": r"\dots{}", '"': "''",
    "ß": r"\ss{}", "æ": r"\ae{}", "ø": r"\o{}", "ł": r"\l{}", "œ": r"\oe{}", "Æ": r"\AE{}", "Ø": r"\O{}",
    "Ł": r"\L{}", "Œ": r"\OE{}", "ı": r"\i{}", "\n": " ", "\t": " ", "\N{NO-BREAK SPACE}": "~", "[": "{[}", "*": "{*}",
}  # fmt: skip
"""What LaTeX would read as a command, also at the beginning of a row, or has no letter for."""
ACCENTS = {
    0x300: "`", 0x301: "'", 0x302: "^", 0x303: "~", 0x304: "=", 0x306: "u", 0x307: ".", 0x308: '"', 0x30A: "r",
    0x30B: "H", 0x30C: "v", 0x327: "c",
}  # fmt: skip
"""The command of each accent that Unicode puts over or under a letter."""
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "τ": "tau", "υ": "upsilon", "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta",
    "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
TEXT_PT = 397.0
"""The width of the text of many conferences: 5.5 inches."""
NARROW, BROAD = " .,:;()'|-iljtfI", "mwMWQO@%&<>=+±×−"
"""Letters that are narrower, and wider, than a figure."""
GAP_PT = 8.0
"""Between two columns."""
NARROWEST_PT = 64.0
"""A column of words that is broken into lines is at least so wide."""


def escaped(text: str) -> str:
    """A text that LaTeX prints as it is; a letter that its fonts do not have is printed as its number, `U+4E2D`."""
    return "".join(map(_letter, text))


def _letter(letter: str) -> str:
    if letter in SPECIAL:
        return SPECIAL[letter]
    if letter in GREEK:
        return f"$\\{GREEK[letter]}$"
    if letter.isascii() and letter.isprintable():
        return letter
    plain, *accents = [*unicodedata.normalize("NFD", letter)]
    if plain.isascii() and plain.isalpha() and [ord(accent) in ACCENTS for accent in accents] == [True]:
        return f"\\{ACCENTS[ord(accents[0])]}{{{plain}}}"
    return f"U+{ord(letter):04X}"


def latex(table: Table, study: str) -> str:
    """A table environment with caption and label. `study`: the id, part of the label."""
    lines = [f"% study {study}; needs \\usepackage{{booktabs,array}}", "\\begin{table}", "\\centering"]
    lines += [
        f"\\caption{{{escaped(table.title)}}}",
        f"\\label{{tab:{_label(study)}-{table.name}}}",
        "\\small",
        f"\\setlength{{\\tabcolsep}}{{{GAP_PT / 2:g}pt}}",
    ]
    widths = _widths(table)
    lines += [f"\\begin{{tabular}}{{@{{}}{''.join(map(_kind, table.columns, widths))}@{{}}}}", "\\toprule"]
    if table.grouped:
        lines += [_groups(table.groups), _rules(table.groups)]
    lines += [_row([escaped(column.head) for column in table.columns]), "\\midrule"]
    for place, cells in enumerate(table.rows):
        found = [_breakable(cell) if width else escaped(cell) for cell, width in zip(cells, widths, strict=True)]
        bold = [f"\\textbf{{{cell}}}" if cell else "" for cell in found]
        lines.append(_row(bold if place in table.strong else found))
    lines += ["\\bottomrule", "\\end{tabular}"]
    if table.note:
        lines += ["", "\\smallskip", f"\\parbox{{\\linewidth}}{{\\footnotesize {escaped(table.note)}}}"]
    return "\n".join([*lines, "\\end{table}", ""])


def _label(study: str) -> str:
    """The id in letters that every TeX takes in a label."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-.") else "-" for letter in study)


def _widths(table: Table) -> list[float | None]:
    """For each column that is broken into lines its share of the text's width; None for one that is not.

    Columns of words share what the others leave, where all together would be too wide. The widest is broken first.
    """
    natural = [max(map(_points, (column.head, *column.cells))) for column in table.columns]
    place = TEXT_PT - GAP_PT * (len(table.columns) - 1)
    found: list[float | None] = [None] * len(natural)
    broken: list[int] = []
    for at in sorted((at for at, one in enumerate(table.columns) if one.words), key=lambda at: -natural[at]):
        if sum(natural[i] for i in range(len(natural)) if i not in broken) + NARROWEST_PT * len(broken) <= place:
            break
        broken.append(at)
    left = place - sum(natural[i] for i in range(len(natural)) if i not in broken)
    for at in broken:
        found[at] = max(left / len(broken), NARROWEST_PT) / TEXT_PT
    return found


def _points(text: str) -> float:
    """About how wide a bold text is in small letters. Units: points."""
    return sum(
        3.7 if letter in NARROW else 9.0 if letter in BROAD else 5.4 * (6 if _letter(letter)[:2] == "U+" else 1)
        for letter in text
    )


def _kind(column: Column, width: float | None) -> str:
    if width is None:
        return "l" if column.words else "r"
    return f">{{\\raggedright\\arraybackslash\\hspace{{0pt}}}}p{{{width:.3f}\\linewidth}}"


def _breakable(text: str) -> str:
    """A text whose long words LaTeX may break: after a sign that joins two, else with a hyphen."""
    return "".join(map(_broken, re.split(r"(\s+)", text)))


def _broken(word: str) -> str:
    if _points(word) <= NARROWEST_PT:
        return escaped(word)
    parts = [_pieces(part) for part in re.split(r"(?<=[_/=+,-])", word) if part]
    return r"\allowbreak{}".join("\\-".join(map(escaped, part)) for part in parts)


def _pieces(word: str) -> list[str]:
    """A word in pieces that fit, each with a hyphen, in the narrowest column."""
    found = [""]
    for letter in word:
        if _points(f"{found[-1]}{letter}-") > NARROWEST_PT:
            found.append("")
        found[-1] += letter
    return found


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
