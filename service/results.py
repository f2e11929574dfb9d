"""The result of a study, for Python and notebooks: tables, the best trial with its model, verdicts, the report.

result = Result.open(Home.find(), "fourier-gamma@cpu")
result.trials(); result.best.model(); result.claims; result.report()
"""

from __future__ import annotations

import html
from pathlib import PosixPath
from typing import TYPE_CHECKING

from service.analysis.estimates.stopping import stopping_sentence
from service.analysis.headline import headline
from service.analysis.study_result import StudyResult
from service.execution.jobs.submission import Submission

if TYPE_CHECKING:
    from pandas import DataFrame

    from service.tracking.views import Links


class ReportPath(PosixPath):
    """The path of a report; a notebook shows the page itself."""

    def _repr_html_(self) -> str:
        page = html.escape(self.read_text())
        return f'<iframe srcdoc="{page}" style="width:100%;height:48rem;border:0"></iframe>'


class Result(StudyResult):
    """A study's result with its tables and its report, as Python and notebooks show it."""

    @property
    def headline(self) -> str:
        """The study's question, answered in a sentence or two."""
        return headline(self)

    def table(self) -> DataFrame:
        """A row a run."""
        from service.analysis.tables import runs_table

        return runs_table(self)

    def trials(self) -> DataFrame:
        """A row a trial: n, mean, spread, interval, difference to the baseline."""
        from service.analysis.tables import trials_table

        return trials_table(self)

    def report(self, links: Links | None = None) -> ReportPath:
        """Writes the report (HTML, Markdown, figures, tables) and returns the path of its page. Cost: 1-3 s.

        `links`: the addresses of the study in MLflow; without them a server at `mlflow_url` is asked.
        """
        from service.reporting.files import write

        return ReportPath(write(self, _named(links or self._served_links())))

    def _served_links(self) -> Links | None:
        """The addresses of the study at its MLflow server; None for another kind of store, or one that is away."""
        if not (self.mlflow_url or "").startswith("http"):
            return None
        from service.tracking.server import reachable_links

        server = (self.mlflow_url or "").partition("/#/")[0]
        return reachable_links(self.home, self.edition, server)

    def __repr__(self) -> str:
        verdicts = "\n".join(f"  {verdict}" for verdict in self.claims)
        lines = [f"{self.edition.id}: {self.edition.study.question}", self.headline, stopping_sentence(self.rungs)]
        return "\n".join(line for line in (*lines, verdicts) if line)

    def _repr_html_(self) -> str:
        from service.analysis.tables import brief_table

        said = "".join(f"<li>{html.escape(str(verdict))}</li>" for verdict in self.claims)
        head = f"<b>{html.escape(self.edition.id)}</b> {html.escape(self.edition.study.question)}"
        rows = brief_table(self).to_html(index=False)
        return f"<p>{head}</p><p>{html.escape(self.headline)}</p><ul>{said}</ul>{rows}"


def _named(links: Links | None) -> dict[str, str]:
    """The addresses by what a page calls them."""
    if links is None:
        return {}
    return {"trials": links.trials, "runs": links.runs, "the study": links.parent}


class SubmittedStudy(Submission):
    """A submission that gives the study's result once its job has ended."""

    def wait(self) -> Result:
        """Waits for the end of the job, and reads the result from the home.

        Raises: SubmissionError for a job that failed, or a home that this machine does not see.
        """
        home, id = self.wait_for_end()
        return Result.open(home, id, self.mlflow() or None)
