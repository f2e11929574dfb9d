"""The table of docs/atlas.md, from the record of the study: `.venv/bin/python -m tests.house.atlas` prints it."""

from __future__ import annotations

from statistics import fmean

from search_spaces.library import find, record_file
from search_spaces.plans.ablation import BETWEEN
from search_spaces.record import Record, Scored, read
from service.analysis.study_status import standings

COLUMNS = {
    "direction": ("direction", None),
    "direction, 12 x 12": ("direction", 48),
    "absolute place": ("absolute place", None),
    "quadrant": ("quadrant", None),
    "new colors": ("new colors", None),
    "few images": ("few images", None),
    "digits": ("real images", None),
}
"""The columns: a task, and the side of its test images where it is not that of training. Units: pixels."""
APART = 0.1
"""Above this standard deviation over seeds a mean has a star."""


def age() -> str:
    """How old the results are, in the words that `locus studies` has: the page has them in parentheses."""
    return standings(find("atlas"), "atlas")["cpu"]


def table(found: Record) -> str:
    """The table in Markdown, the best mean rank first."""
    rows = {row.name: row for row in found.rows}
    names = ["mean rank", *COLUMNS, "seconds a run"]
    lines = [f"| encoding | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    for encoding, rank in found.ranks.items():
        mine = [row for name, row in rows.items() if name.split(BETWEEN)[0] == encoding]
        tasks = [(rows[BETWEEN.join((encoding, task))], side) for task, side in COLUMNS.values()]
        cells = [_cell(row.test if side is None else row.test_sizes[side]) for row, side in tasks]
        cells = [f"{rank:.2f}", *cells, f"{fmean(row.time_s for row in mine):.1f}"]
        lines.append(f"| {encoding} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(one: Scored) -> str:
    return f"{round(one.mean, 2) + 0.0:.2f}" + "*" * (one.std is not None and one.std > APART)


if __name__ == "__main__":
    found = read(record_file("atlas", "atlas@cpu"))
    print(f"({age()})\n\n{table(found) if found else 'no record of atlas@cpu: locus record atlas writes it'}")
