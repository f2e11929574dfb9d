"""Writes the report of a study: one self-contained page, figures and tables as files beside it.

<home>/studies/<id>/report/report.html results.csv trials.csv *.svg *.pdf table-*.csv table-*.tex files.json
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from service.analysis.tables import runs_table, trials_table
from service.reporting.figures.plot import inline
from service.reporting.latex import latex, paper_table
from service.reporting.page import Page
from service.reporting.page import page as page_of
from service.reporting.pages import templates
from service.reporting.results_table import RESULTS
from service.reporting.table import frame_csv
from service.storage.plain_json import plain_json
from trainables.whole_files import write_whole

if TYPE_CHECKING:
    from service.analysis.study_result import StudyResult

SYMBOLS = {"SUPPORTED": "✓", "REFUTED": "✕", "INCONCLUSIVE": "?", "NOT JUDGED": "–"}
"""A sign beside each verdict, so that readers need no colors to distinguish them."""
FEW = 12
"""A folded table with so few rows is open at first."""
WRITTEN = "files.json"
"""Beside the page: the names of the files that were written with it, each with the SHA-256 of its content."""


def write(result: StudyResult, links: Mapping[str, str] | None = None, refresh_s: int | None = None) -> Path:
    """Writes the report of a result and returns the path of its page. Cost: 1-3 s, most of it figures.

    The page is written last, so that whatever it links to is there. `links`: by name, the study's addresses in MLflow.
    `refresh_s`: a browser loads the page again after so many seconds. A study's driver and those who watch it may write
    at the same time.
    """
    page = page_of(result, links or {})
    folder = result.home.study(result.edition.id).report
    files: dict[str, str | bytes] = {
        "results.csv": frame_csv(runs_table(result)),
        "trials.csv": frame_csv(trials_table(result)),
    }
    for table in page.tables:
        shown = paper_table(result, table) if table.name == RESULTS else table
        files |= {f"table-{table.name}.csv": table.csv(), f"table-{table.name}.tex": latex(shown, page.id)}
    for drawn in page.all_figures:
        files |= {f"{drawn.name}.svg": drawn.svg, f"{drawn.name}.pdf": drawn.pdf}
    files |= {"report.html": _render(page, refresh_s)}
    earlier, now = _written(folder), {name: _digest(content) for name, content in files.items()}
    write_whole(folder / WRITTEN, json.dumps(earlier | now, indent=0))  # both, because the next lines may be cut
    for name, content in files.items():
        write_whole(folder / name, content)
    for path in folder.iterdir():
        if path.name in earlier.keys() - now.keys() and path.is_file():
            with suppress(FileNotFoundError):  # somebody else removed it
                if earlier[path.name] == _digest(path.read_bytes()):
                    path.unlink()
    write_whole(folder / WRITTEN, json.dumps(now, indent=0))
    return folder / "report.html"


def _digest(content: str | bytes) -> str:
    return hashlib.sha256(content if isinstance(content, bytes) else content.encode()).hexdigest()


def _written(folder: Path) -> dict[str, str]:
    """What an earlier page wrote, by name. A file that a user has changed since is not ours any more."""
    try:
        known = plain_json((folder / WRITTEN).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return known if isinstance(known, dict) else {}


def _render(page: Page, refresh_s: int | None) -> str:
    page_of_study = templates().get_template("report.html.j2")
    return page_of_study.render(page=page, symbols=SYMBOLS, few=FEW, refresh_s=refresh_s, inline=inline)
