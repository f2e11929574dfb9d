"""The table of search_spaces/ATLAS.md, from the two records of the study: `python -m tests.house.atlas` prints it."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from search_spaces.library import find, record_file
from search_spaces.plans.ablation import BETWEEN
from search_spaces.record import BEFORE, Record, Scored, read
from service.analysis.across_trials import mean_over_families
from service.analysis.study_status import standings

EDITIONS = {"cpu": "atlas@cpu", "images": "atlas@images~cifar10-03c6"}
"""The records, by budget."""
COLUMNS = {
    "direction": ("cpu", "direction", None),
    "direction, 12 x 12": ("cpu", "direction", 48),
    "absolute place": ("cpu", "absolute place", None),
    "quadrant": ("cpu", "quadrant", None),
    "new colors": ("cpu", "new colors", None),
    "few images": ("cpu", "few images", None),
    "digits": ("cpu", "real images", None),
    "photographs": ("images", "real images", None),
    "photographs, 12 x 12": ("images", "real images", 48),
}
"""The columns: a budget, a task, and the side of its test images if it is not that of training. Units: pixels."""
APART = 0.1
"""Above this standard deviation over seeds a mean has a star."""


def ages() -> list[str]:
    """How old the results of both budgets are, in the words of `locus studies`; the page has them in parentheses.

    That other rules judged them is left out: no rule changes a mean.
    """
    known = standings(find("atlas"), "atlas")
    return [known[budget].rpartition(": ")[2].replace(f", {BEFORE}", "") for budget in EDITIONS]


def records() -> dict[str, Record]:
    """The records that there are, by budget."""
    found = {budget: read(record_file("atlas", edition)) for budget, edition in EDITIONS.items()}
    return {budget: record for budget, record in found.items() if record}


def table(found: Mapping[str, Record]) -> str:
    """The table in Markdown, the highest mean over families at `cpu` first. `found`: a record by budget."""
    rows = {budget: {row.name: row for row in record.rows} for budget, record in found.items()}
    names = ["mean", *COLUMNS, "seconds a run"]
    lines = [f"| encoding | {' | '.join(names)} |", f"|---|{'---:|' * len(names)}"]
    known = means(found["cpu"])
    for encoding in sorted(known, key=lambda name: -known[name]):
        cells = [_two(known[encoding])]
        for budget, task, side in COLUMNS.values():
            row = rows[budget][BETWEEN.join((encoding, task))]
            cells.append(_cell(row.test if side is None else row.test_sizes[side]))
        times = [row.time_s for name, row in rows["cpu"].items() if name.split(BETWEEN)[0] == encoding]
        lines.append(f"| {encoding} | {' | '.join([*cells, f'{fmean(times):.1f}'])} |")
    return "\n".join(lines)


def means(record: Record) -> dict[str, float]:
    """The mean test skill of each encoding over the families of tasks."""
    plan = find("atlas").plan
    tasks: dict[str, dict[str, float]] = {}
    for row in record.rows:
        encoding, task = row.name.split(BETWEEN)
        tasks.setdefault(encoding, {})[task] = row.test.mean
    return {encoding: mean_over_families(one, plan.families) for encoding, one in tasks.items()}


def _cell(one: Scored) -> str:
    return _two(one.mean) + "*" * (one.std is not None and one.std > APART)


def _two(mean: float) -> str:
    return f"{round(mean, 2) + 0.0:.2f}"


if __name__ == "__main__":
    found = records()
    lacks = [edition for budget, edition in EDITIONS.items() if budget not in found]
    if lacks:
        print(f"no record of {', '.join(lacks)}: locus record writes it")
    else:
        print(f"({'), ('.join(ages())})\n\n{table(found)}")
