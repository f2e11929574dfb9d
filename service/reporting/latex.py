"""Writes a table of a report as LaTeX, with the rules of the package booktabs and the columns of the package array."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from search_spaces.words import plural
from service.analysis.study_result import StudyResult
from service.analysis.tables import runs_table
from service.reporting.pages import Column, Table, frame_csv
from service.reporting.results_table import adjusted_words, earlier_words, meanings, measured, results_rows
from trainables.spec import LocusError, SpecError

SPECIAL = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", "|": r"\textbar{}",
    "\N{MINUS SIGN}": "$-$", "±": r"$\pm$", "²": "$^2$", "×": r"$\times$", "·": r"$\cdot$", "≤": r"$\le$",
    "≥": r"$\ge$", "≈": r"$\approx$", "→": r"$\to$", "∞": r"$\infty$", "√": r"$\surd$", "µ": r"$\mu$",
    "“": "``", "”": "''", "‘": "`", "’": "'", "–": "--", "—": "---", "…": r"\dots{}", '"': "''",
    "ß": r"\ss{}", "æ": r"\ae{}", "ø": r"\o{}", "ł": r"\l{}", "œ": r"\oe{}", "Æ": r"\AE{}", "Ø": r"\O{}",
    "Ł": r"\L{}", "Œ": r"\OE{}", "ı": r"\i{}", "\n": " ", "\t": " ", "\N{NO-BREAK SPACE}": "~", "[": "{[}", "*": "{*}",
}  # fmt: skip
"""LaTeX for each letter that it would read as a command, also at the beginning of a row, or does not have."""
ACCENTS = {
    0x300: "`", 0x301: "'", 0x302: "^", 0x303: "~", 0x304: "=", 0x306: "u", 0x307: ".", 0x308: '"', 0x30A: "r",
    0x30B: "H", 0x30C: "v", 0x327: "c",
}  # fmt: skip
"""By the number of each accent that Unicode puts over or under a letter: its command in LaTeX."""
GREEK = {
    "α": "alpha", "β": "beta", "γ": "gamma", "δ": "delta", "ε": "varepsilon", "ζ": "zeta", "η": "eta", "θ": "theta",
    "ι": "iota", "κ": "kappa", "λ": "lambda", "μ": "mu", "ν": "nu", "ξ": "xi", "π": "pi", "ρ": "rho", "σ": "sigma",
    "τ": "tau", "υ": "upsilon", "φ": "varphi", "χ": "chi", "ψ": "psi", "ω": "omega", "Γ": "Gamma", "Δ": "Delta",
    "Θ": "Theta", "Λ": "Lambda", "Ξ": "Xi", "Π": "Pi", "Σ": "Sigma", "Φ": "Phi", "Ψ": "Psi", "Ω": "Omega",
}  # fmt: skip
TEXT_PT = 397.0
"""The width of the text in papers of many conferences, 5.5 inches. Units: points."""
NARROW, BROAD = " .,:;()'|-iljtfI", "mwMWQO@%&<>=+±×−"
"""Letters that are narrower than a digit, and letters that are wider."""
GAP_PT = 8.0
"""The distance between two columns. Units: points."""
NARROWEST_PT = 56.0
"""The least width of a column whose words are broken into lines. Units: points."""
ALL = "all"
HEAD = "minus the baseline, paired"
"""The head over the differences. It does not name the baseline, which may have a long name: the first column does."""


def escaped(text: str) -> str:
    """Returns a text such that LaTeX prints it unchanged; letters that its fonts lack become numbers, `U+4E2D`."""
    letters = []
    for letter in text:
        plain, *accents = [*unicodedata.normalize("NFD", letter)]
        if letter in SPECIAL:
            letters.append(SPECIAL[letter])
        elif letter in GREEK:
            letters.append(f"$\\{GREEK[letter]}$")
        elif letter.isascii() and letter.isprintable():
            letters.append(letter)
        elif plain.isascii() and plain.isalpha() and len(accents) == 1 and ord(accents[0]) in ACCENTS:
            letters.append(f"\\{ACCENTS[ord(accents[0])]}{{{plain}}}")
        else:
            letters.append(f"U+{ord(letter):04X}")
    return "".join(letters)


def latex(table: Table, study: str) -> str:
    """Returns a table as LaTeX's table environment with caption and label. `study`, its id, is part of the label."""
    label = "".join(letter if re.match(r"[A-Za-z0-9.-]", letter) else "-" for letter in study)
    widths = _widths(table)
    kinds = [
        (("l" if column.words else "r") if width is None
         else f">{{\\raggedright\\arraybackslash\\hspace{{0pt}}}}p{{{width:.3f}\\linewidth}}")
        for column, width in zip(table.columns, widths, strict=True)
    ]  # fmt: skip
    lines = [
        f"% study {study}; needs \\usepackage{{booktabs,array}}",
        "\\begin{table}",
        "\\centering",
        f"\\caption{{{escaped(table.title)}}}",
        f"\\label{{tab:{label}-{table.name}}}",
        "\\small",
        f"\\setlength{{\\tabcolsep}}{{{GAP_PT / 2:g}pt}}",
        f"\\begin{{tabular}}{{@{{}}{''.join(kinds)}@{{}}}}",
        "\\toprule",
    ]
    if table.grouped:
        cells, rules, first = [], "", 1
        for name, same in groupby(column.group for column in table.columns):
            span = len([*same])
            cells.append(f"\\multicolumn{{{span}}}{{c}}{{{escaped(name)}}}" if name else " & " * (span - 1))
            rules += f"\\cmidrule(lr){{{first}-{first + span - 1}}}" if name else ""
            first += span
        lines += [" & ".join(cells) + r" \\", rules]
    lines += [" & ".join(escaped(column.head) for column in table.columns) + r" \\", "\\midrule"]
    for number, row in enumerate(table.rows):
        cells = [_breakable(cell) if width else escaped(cell) for cell, width in zip(row, widths, strict=True)]
        bold = [f"\\textbf{{{cell}}}" if cell else "" for cell in cells]
        lines.append(" & ".join(bold if number in table.strong else cells) + r" \\")
    lines += ["\\bottomrule", "\\end{tabular}"]
    if table.note:
        lines += ["", "\\smallskip", f"\\parbox{{\\linewidth}}{{\\footnotesize {escaped(table.note)}}}"]
    return "\n".join([*lines, "\\end{table}", ""])


def _widths(table: Table) -> list[float | None]:
    """Returns, for each column that is broken into lines, its share of the text's width; None for the others.

    If all columns together are too wide, columns of words share the width that the others leave. The widest is broken
    first.
    """
    natural = [max(map(_points, (column.head, *column.cells))) for column in table.columns]
    room = TEXT_PT - GAP_PT * (len(table.columns) - 1)
    shares: list[float | None] = [None] * len(natural)
    broken: list[int] = []
    whole = sum(natural)
    for number in sorted((i for i, column in enumerate(table.columns) if column.words), key=lambda i: -natural[i]):
        if whole + NARROWEST_PT * len(broken) <= room:
            break
        broken.append(number)
        whole -= natural[number]
    for number in broken:
        shares[number] = max((room - whole) / len(broken), NARROWEST_PT) / TEXT_PT
    return shares


def _points(text: str) -> float:
    """Returns an estimate of the width of a bold text in LaTeX's small letters. Units: points."""
    return sum(
        3.7 if letter in NARROW else 9.0 if letter in BROAD else 5.4 * (6 if escaped(letter)[:2] == "U+" else 1)
        for letter in text
    )


def _breakable(text: str) -> str:
    """Returns a text for LaTeX whose long words may be broken: after one of the signs `_/=+,-`, else with a hyphen."""
    words = []
    for word in re.split(r"(\s+)", text):
        if _points(word) <= NARROWEST_PT:
            words.append(escaped(word))
            continue
        parts = []
        for part in filter(None, re.split(r"(?<=[_/=+,-])", word)):
            pieces = [""]
            for letter in part:
                if _points(f"{pieces[-1]}{letter}-") > NARROWEST_PT:
                    pieces.append("")
                pieces[-1] += letter
            parts.append("\\-".join(map(escaped, pieces)))
        words.append(r"\allowbreak{}".join(parts))
    return "".join(words)


def paper_table(result: StudyResult, table: Table, names: Sequence[str] = ()) -> Table:
    """Returns the table of results with only the columns of these names, in this order; without names a paper's five.

    One of the five is the number of parameters, or that of seeds if seeds are missing or failed, or all models are
    equally large.
    Raises: SpecError for a name that the table does not have.
    """
    choices = [name for name, _ in groupby(column.name for column in table.columns)]
    tests = [row.test for row in results_rows(result)]
    if [*names] == [ALL]:
        names = choices
    elif not names:
        failed = any(test.failed for test in tests)
        alike = not failed and len({test.n for test in tests}) == 1 and "parameters" in choices
        size = ["parameters"] if alike else ["seeds", "failed"] if failed else ["seeds"]
        usual = ["name", *size, "score", "interval", *(["difference", "p"] if "difference" in choices else [])]
        names = [name for name in usual if name in choices]
    if unknown := [name for name in names if name not in choices]:
        raise SpecError(f"columns must be of {', '.join(choices)}, or {ALL} alone, got {', '.join(map(repr, unknown))}")
    columns = [column for name in dict.fromkeys(names) for column in table.columns if column.name == name]

    low, high = min(test.n for test in tests), max(test.n for test in tests)
    caption = [f"{table.title}."]
    if "score" in names:
        count = plural(high, "seed") if low == high else f"{low} to {high} seeds"
        caption.append(f"Scores are over {count}." if high > 1 else "One score, of 1 seed.")
    caption += meanings([column for column in columns if column.name != "score" or high > 1])
    if {"p", "difference-interval"} & {*names} and result.adjusted_over:
        caption += [f"{adjusted_words(result)}.", *earlier_words(result)]
    if table.strong:
        by = "the validation scores of the search's own seeds" if result.ranking.confirmed else "validation"
        caption.append(f"Bold: best by {by}.")
    return replace(table, title=" ".join(caption), columns=_joined(table, columns), note="", legend="")


def _joined(table: Table, columns: Sequence[Column]) -> list[Column]:
    """Returns the columns, joined where one stands under another: its cells follow in brackets."""
    stacks = {column.name: number for number, stack in enumerate(table.stacks) for column in stack}
    joined: list[Column] = []
    last = ""
    for column in columns:
        head = column.head.removesuffix(" (Holm)")  # which the caption says
        if column.under and last and stacks[last] == stacks[column.name]:
            pairs = zip(joined[-1].cells, column.cells, strict=True)
            cells = [f"{cell} ({under})" if under else cell for cell, under in pairs]
            joined[-1] = replace(joined[-1], head=f"{joined[-1].head} ({head})", cells=cells)
        else:
            group = HEAD if "difference" in column.name or column.name == "p" else column.group
            words = column.words or column.name == "seeds"  # `4, 1 diverged`: may take two lines
            joined.append(replace(column, head=head, group=group if group != column.head else "", words=words))
        last = column.name
    return joined


def as_csv(result: StudyResult) -> str:
    """Returns the table of runs as CSV, one row per run."""
    return frame_csv(runs_table(result))


def as_latex(result: StudyResult, columns: Sequence[str] = ()) -> str:
    """Returns the table of results as LaTeX. `columns` are names of columns such as score and p, or `all`.

    Raises: LocusError if no trial has an answer; SpecError for a column that the study does not have.
    """
    table = measured(result)
    if table is None:
        raise LocusError(f"{result.edition.id} must have a trial with an answer to be exported, got none")
    return latex(paper_table(result, table, columns), result.edition.id)
