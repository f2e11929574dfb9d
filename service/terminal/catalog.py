"""Prints the list of `locus studies`. Its rows are stored between calls: to build all studies takes half a second."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import search_spaces
import trainables
from search_spaces import library
from service.terminal.output import NARROW, columns, console, print_json, row, sentence
from trainables.kept import keep, kept, seen

if TYPE_CHECKING:
    from search_spaces.study import Study

LISTED = ("name", "question", "paper", "minutes", "gpu_hours")
"""The fields of a study that `studies --json` prints, beside its sizes and results."""


def studies(as_json: bool) -> None:
    """Prints the list of the named studies, as JSON or as a table."""
    listing = study_rows()
    if as_json:
        print_json([{key: study[key] for key in (*LISTED, "sizes", "found")} for study in listing])
        return
    out = console()
    wide = out.width >= NARROW
    heading = "trials x seeds (time), results at each budget"
    view = columns("study", "question", *(["paper", "plan"] if wide else []), heading)
    for study in listing:
        results = {budget: f", {age}" for budget, age in study["found"].items()}
        budgets = [
            f"{budget} {size}{study['times'][budget]}{results.get(budget, '')}"
            for budget, size in study["sizes"].items()
        ]
        about = [study["paper"].partition(",")[0], study["plan"]] if wide else []
        row(view, study["name"], study["question"], *about, "\n".join(budgets))
    out.print(view)
    sentence(out, "time: on 2 CPU cores, or predicted in hours of one GPU (locus plan STUDY --budget BUDGET)")
    sentence(out, "results: locus show STUDY has them; those from before these rules were judged by earlier statistics")
    sentence(
        out, "trials that tune, random points, confirmations and parents are not counted here; locus plan counts all"
    )
    sentence(out, "each table and figure of the papers, with its studies: locus studies --papers")


def study_rows() -> list[dict[str, Any]]:
    """Returns the rows of the list, one per named study. They are stored until a file changes that defines studies."""
    packages = [Path(str(package.__file__)).parent for package in (search_spaces, trainables)]
    analysis = Path(__file__).parents[1] / "analysis"
    mark = seen(*packages, Path(__file__), analysis / "study_status.py", analysis / "catalog.txt", *library.records())
    name = f"studies-{hashlib.sha256(str(packages).encode()).hexdigest()[:8]}.json"
    listing: list[dict[str, Any]] | None = kept(name, mark)
    if listing is None:
        from service.analysis.study_status import standings

        listing = []
        for study in map(library.find, library.names()):
            counts = sizes(study)
            times = {budget: time_words(study, budget) for budget in counts}
            about = {key: getattr(study, key) for key in LISTED}
            results = standings(study, study.name)
            listing.append({**about, "plan": study.plan.kind, "sizes": counts, "times": times, "found": results})
        keep(name, mark, listing)
    return listing


def sizes(study: Study) -> dict[str, str]:
    """Returns `trials x seeds` by budget. It reads them from the budgets: to build each edition would take a second."""
    from search_spaces.study import Budget

    plan, budgets = study.plan, study.budgets or {"base": Budget()}
    usual = len(study.usual) or plan.size
    # the budgets of an ablation count the trials of a tuning
    trials = {name: usual if plan.arms else size.trials or usual for name, size in budgets.items()}
    return {name: f"{trials[name]} x {size.seeds or study.seeds}" for name, size in budgets.items()}


def time_words(study: Study, budget: str) -> str:
    """Returns, in brackets, how long a study takes at a budget; an empty text if the study does not say it."""
    time = study.time_words(budget)
    return f" ({time})" if time else ""


def papers(as_json: bool) -> None:
    """Prints every table and figure of the papers, with the studies that repeat it, and what no study asks, and why."""
    from rich.text import Text

    from search_spaces.coverage import PAPERS

    if as_json:
        print_json({paper: {name: item._asdict() for name, item in items.items()} for paper, items in PAPERS.items()})
        return
    out = console()
    for paper, items in PAPERS.items():
        sentence(out, Text(paper, style="bold"))
        view = columns("  table, figure", "studies", "not asked, and why")
        for name, item in items.items():
            row(view, f"  {name}", ", ".join(item.studies) or "-", item.gap)
        out.print(view)
    sentence(out, "irpe: the note numbers no tables and no figures; locus studies lists its studies")
