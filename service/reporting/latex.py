"""A table of a report as LaTeX, with the rules of the package booktabs and the columns of the package array."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from search_spaces.words import plural
from service.analysis.statistics import FEWEST
from service.analysis.tables import runs_table
from service.reporting.pages import Column, Table, frame_csv
from service.reporting.results_table import (
    DIVERGED,
    FAILED,
    FEW,
    adjusted_words,
    best_of_words,
    claimed_words,
    earlier_words,
    measured,
    shown,
    star_words,
)
from trainables.spec import LocusError, SpecError

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult


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
NARROWEST_PT = 56.0
"""A column of words that is broken into lines is at least so wide."""


def escaped(text: str) -> str:
    """Returns a text that LaTeX prints as it is.

    A letter that its fonts do not have is printed as its number, `U+4E2D`.
    """
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
    """Returns a table environment with caption and label. `study`: the id, part of the label."""
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
        texts = [_breakable(cell) if width else escaped(cell) for cell, width in zip(cells, widths, strict=True)]
        bold = [f"\\textbf{{{cell}}}" if cell else "" for cell in texts]
        lines.append(_row(bold if place in table.strong else texts))
    lines += ["\\bottomrule", "\\end{tabular}"]
    if table.note:
        lines += ["", "\\smallskip", f"\\parbox{{\\linewidth}}{{\\footnotesize {escaped(table.note)}}}"]
    return "\n".join([*lines, "\\end{table}", ""])


def _label(study: str) -> str:
    """Returns the id in letters that every TeX takes in a label."""
    return "".join(letter if letter.isascii() and (letter.isalnum() or letter in "-.") else "-" for letter in study)


def _widths(table: Table) -> list[float | None]:
    """Returns, for each column that is broken into lines, its share of the text's width; None for the others.

    Columns of words share what the others leave, where all together would be too wide. The widest is broken first.
    """
    natural = [max(map(_points, (column.head, *column.cells))) for column in table.columns]
    place = TEXT_PT - GAP_PT * (len(table.columns) - 1)
    shares: list[float | None] = [None] * len(natural)
    broken: list[int] = []
    for at in sorted((at for at, column in enumerate(table.columns) if column.words), key=lambda at: -natural[at]):
        if sum(natural[i] for i in range(len(natural)) if i not in broken) + NARROWEST_PT * len(broken) <= place:
            break
        broken.append(at)
    left = place - sum(natural[i] for i in range(len(natural)) if i not in broken)
    for at in broken:
        shares[at] = max(left / len(broken), NARROWEST_PT) / TEXT_PT
    return shares


def _points(text: str) -> float:
    """Estimates how wide a bold text is in small letters. Units: points."""
    return sum(
        3.7 if letter in NARROW else 9.0 if letter in BROAD else 5.4 * (6 if _letter(letter)[:2] == "U+" else 1)
        for letter in text
    )


def _kind(column: Column, width: float | None) -> str:
    if width is None:
        return "l" if column.words else "r"
    return f">{{\\raggedright\\arraybackslash\\hspace{{0pt}}}}p{{{width:.3f}\\linewidth}}"


def _breakable(text: str) -> str:
    """Returns a text whose long words LaTeX may break: after a sign that joins two, else with a hyphen."""
    return "".join(map(_broken, re.split(r"(\s+)", text)))


def _broken(word: str) -> str:
    if _points(word) <= NARROWEST_PT:
        return escaped(word)
    parts = [_pieces(part) for part in re.split(r"(?<=[_/=+,-])", word) if part]
    return r"\allowbreak{}".join("\\-".join(map(escaped, part)) for part in parts)


def _pieces(word: str) -> list[str]:
    """Returns a word in pieces that fit, each with a hyphen, in the narrowest column."""
    pieces = [""]
    for letter in word:
        if _points(f"{pieces[-1]}{letter}-") > NARROWEST_PT:
            pieces.append("")
        pieces[-1] += letter
    return pieces


def _row(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _groups(groups: Sequence[tuple[str, int]]) -> str:
    return _row([f"\\multicolumn{{{span}}}{{c}}{{{escaped(name)}}}" if name else " & " * (span - 1)
                 for name, span in groups])  # fmt: skip


def _rules(groups: Sequence[tuple[str, int]]) -> str:
    """Returns a short line under each head that spans columns."""
    rules, first = [], 1
    for name, span in groups:
        if name:
            rules.append(f"\\cmidrule(lr){{{first}-{first + span - 1}}}")
        first += span
    return "".join(rules)


ALL = "all"
TESTED = {"difference-interval", "p"}
OURS = {"difference", *TESTED}
DIFFERENCES = {*OURS, "published-difference"}
HEAD = "minus the baseline, paired"
"""Over the differences: the name of the baseline may be too long for it, and is marked in the first column."""


def paper_table(result: StudyResult, table: Table, names: Sequence[str] = ()) -> Table:
    """Returns the columns of the table of results with these names, in this order; without names those of `_usual`.

    Raises: SpecError for a name that the table does not have.
    """
    known = [name for name, _ in groupby(column.name for column in table.columns)]
    names = known if [*names] == [ALL] else names or _usual(result, known)
    if unknown := [name for name in names if name not in known]:
        raise SpecError(f"columns must be of {', '.join(known)}, or {ALL} alone, got {', '.join(map(repr, unknown))}")
    columns = [column for name in dict.fromkeys(names) for column in table.columns if column.name == name]
    wider = best_of_words(row.test for row in shown(result)) if "interval" in names else []
    by = "the validation scores of the search's own seeds" if result.ranking.confirmed else "validation"
    bold = [f"Bold: best by {by}.", *wider] if table.strong else []
    title = " ".join([f"{table.title}.", *_caption(result, columns), *bold])
    return replace(table, title=title, columns=_joined(table, columns), note="")


def _usual(result: StudyResult, known: Sequence[str]) -> list[str]:
    """Lists a paper's five columns: parameters, or seeds if some are missing or fail, or if all models are as large."""
    tests = [row.test for row in shown(result)]
    none_failed = not any(test.failed for test in tests)
    seeds = ["seeds"] if none_failed else ["seeds", "failed"]
    alike = none_failed and len({test.n for test in tests}) == 1 and "parameters" in known
    differences = ["difference", "p"] if "difference" in known else []
    named = ["name", *(["parameters"] if alike else seeds), "score", "interval", *differences]
    return [name for name in named if name in known]


def _caption(result: StudyResult, columns: Sequence[Column]) -> list[str]:
    """Returns what a reader must know about the numbers that are shown."""
    rows, names, parts = shown(result), {column.name for column in columns}, []
    if "score" in names:
        low, high = min(row.test.n for row in rows), max(row.test.n for row in rows)
        count = plural(high, "seed") if low == high else f"{low} to {high} seeds"
        parts += [f"Mean ± standard deviation over {count}." if high > 1 else "One score, of 1 seed."]
        parts += [DIVERGED] if any(row.test.diverged for row in rows) else []
    if "interval" in names and any(1 < row.test.n < FEWEST for row in rows):
        parts += [FEW]
    if "failed" in names:
        parts += [FAILED]
    if names & OURS:
        parts += [f"Differences to the baseline are paired by seed{_test_words(result, names)}."]
        parts += [*claimed_words(result), *earlier_words(result)] if names & TESTED else []
    return parts + star_words(result, columns)


def _test_words(result: StudyResult, names: set[str]) -> str:
    if not names & TESTED or not result.adjusted_over:
        return ""
    return f"; {adjusted_words(result, together='difference-interval' in names)}"


def _joined(table: Table, columns: Sequence[Column]) -> list[Column]:
    """Returns each column with those that stand under it in the table, in brackets."""
    stacks = {column.name: place for place, stack in enumerate(table.stacks) for column in stack}
    joined: list[Column] = []
    last = ""
    for column in columns:
        if column.under and last and stacks[last] == stacks[column.name]:
            cells = [
                f"{cell} ({under})" if under else cell
                for cell, under in zip(joined[-1].cells, column.cells, strict=True)
            ]
            joined[-1] = replace(joined[-1], head=f"{joined[-1].head} ({_short(column)})", cells=cells)
        else:
            group = HEAD if column.name in DIFFERENCES else column.group
            words = column.words or column.name == "seeds"  # `4, 1 diverged`: may take two lines
            group = group if group != column.head else ""
            joined.append(replace(column, head=_short(column), group=group, words=words))
        last = column.name
    return joined


def _short(column: Column) -> str:
    """Returns a head without the name of Holm's procedure, which stands in the caption."""
    return column.head.removesuffix(" (Holm)")


def as_csv(result: StudyResult) -> str:
    """Returns one row per run."""
    return frame_csv(runs_table(result))


def as_latex(result: StudyResult, columns: Sequence[str] = ()) -> str:
    """Returns the table of results, with the rules of booktabs. `columns`: names such as score and p, or `all`.

    Raises: LocusError if no trial has an answer; SpecError for a column that the study does not have.
    """
    table = measured(result)
    if table is None:
        raise LocusError(f"{result.edition.id} must have a trial with an answer to be exported, got none")
    return latex(paper_table(result, table, columns), result.edition.id)
