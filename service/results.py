"""What a study found: tables, the best trial with its model, verdicts, the report.

result = Result.open(Home.find(), "fourier-gamma@cpu")
result.trials(); result.best.model(); result.claims; result.report()
"""

from __future__ import annotations

import html
import json
from functools import cached_property
from pathlib import PosixPath
from typing import TYPE_CHECKING

from search_spaces.study import Ablation, Edition, Search
from service.answer import answer
from service.history import History
from service.home import Home
from service.journal import read
from service.outcomes import Outcomes
from service.statistics import Estimate, Scores, difference, holm
from service.trial_result import TrialResult, collect
from service.verdicts import Verdict, judge
from trainables.code import Codes
from trainables.spec import LocusError

if TYPE_CHECKING:
    from pandas import DataFrame


class ReportPath(PosixPath):
    """The path of a report; a notebook shows the page itself."""

    def _repr_html_(self) -> str:
        page = html.escape(self.read_text())
        return f'<iframe srcdoc="{page}" style="width:100%;height:48rem;border:0"></iframe>'


class Result:
    """A study's trials and what they say. Reads files only; nothing is trained, and nothing written but the report."""

    def __init__(
        self, home: Home, edition: Edition, history: History, outcomes: Outcomes, tracking: str | None = None
    ) -> None:
        self.home, self.edition, self.history = home, edition, history
        self.mlflow_url = tracking
        self.rows = collect(history, outcomes)

    @classmethod
    def open(cls, home: Home, id: str, tracking: str | None = None) -> Result:
        """The result of a study of a home, by its id.

        Raises: LocusError for an id that this home does not hold.
        """
        folder = home.study(id)
        if not folder.study.exists():
            raise LocusError(f"no study {id!r} in {home.root}; known: {', '.join(home.ids()) or 'none'}")
        edition = Edition.read(json.loads(folder.study.read_text()))
        codes = Codes()
        history = History(edition, lambda recipe: codes(recipe).digest, read(folder.journal)[0])
        return cls(home, edition, history, Outcomes(home), tracking)

    def of(self, role: str) -> list[TrialResult]:
        """The trials of a role: trial, confirmation, parent."""
        return [row for row in self.rows if row.trial.role == role]

    @cached_property
    def confirmed(self) -> list[TrialResult]:
        """A search's trials on fresh seeds, the highest validation mean first."""
        rows = [row for row in self.of("confirmation") if row.trial.number in self.history.confirms]
        return sorted(rows, key=lambda row: (-(row.validation.mean or 0.0), row.trial.number))

    @cached_property
    def best(self) -> TrialResult | None:
        """What validation puts first: of the trials confirmed on fresh seeds, else of all. None before one ends."""
        for rows in (self.confirmed, self.of("trial")):
            complete = [row for row in rows if row.answer.status == "completed" and row.validation.mean is not None]
            if complete:
                return max(complete, key=lambda row: (row.validation.mean or 0.0, -row.trial.number))
        return None

    @cached_property
    def named(self) -> dict[str, TrialResult]:
        """The trials that claims and published numbers speak of: the arms, or `best` and `first` once confirmed."""
        if isinstance(self.edition.study.plan, Ablation):
            return {row.name: row for row in self.of("trial")}
        by_number = {row.trial.number: row for row in self.confirmed}
        ended = all(row.answer.status != "open" for row in self.confirmed)
        best = self.best if ended and self.best in self.confirmed else None
        first = by_number.get(0) if self.edition.study.plan.first else None
        return {name: row for name, row in (("best", best), ("first", first)) if row is not None}

    @property
    def scores(self) -> dict[str, Scores]:
        """The test scores of the named trials."""
        return {name: row.test for name, row in self.named.items()}

    @cached_property
    def claims(self) -> list[Verdict]:
        """The verdicts on the study's claims."""
        return [judge(claim, self.scores) for claim in self.edition.study.claims]

    @cached_property
    def differences(self) -> dict[str, tuple[Estimate, float | None]]:
        """Each arm's paired test difference to the baseline, with its p adjusted over all arms (Holm)."""
        plan = self.edition.study.plan
        if isinstance(plan, Search) or plan.baseline not in self.scores:
            return {}
        others = {name: scores for name, scores in self.scores.items() if name != plan.baseline}
        pairs = {name: difference(scores, self.scores[plan.baseline]) for name, scores in others.items()}
        gaps = {name: gap for name, gap in pairs.items() if gap is not None}
        adjusted = holm({name: p for name, gap in gaps.items() if (p := gap.p()) is not None})
        return {name: (gap, adjusted.get(name)) for name, gap in gaps.items()}

    @property
    def answer(self) -> str:
        """The study's question, answered in a sentence."""
        return answer(self)

    def table(self) -> DataFrame:
        """A row a run."""
        from service.tables import runs_table

        return runs_table(self)

    def trials(self) -> DataFrame:
        """A row a trial: n, mean, spread, interval, difference to the baseline."""
        from service.tables import trials_table

        return trials_table(self)

    def report(self) -> ReportPath:
        """Writes the report (HTML, Markdown, figures, CSV) and gives the path of its page. Cost: 1-3 s."""
        from service.report import write

        return ReportPath(write(self))

    def __repr__(self) -> str:
        verdicts = "\n".join(f"  {verdict}" for verdict in self.claims)
        return f"{self.edition.id}: {self.edition.study.question}\n{self.answer}\n{verdicts}".rstrip()

    def _repr_html_(self) -> str:
        said = "".join(f"<li>{html.escape(str(verdict))}</li>" for verdict in self.claims)
        head = f"<b>{html.escape(self.edition.id)}</b> {html.escape(self.edition.study.question)}"
        rows = self.trials().to_html(index=False, float_format="{:.4f}".format, na_rep="")
        return f"<p>{head}</p><p>{html.escape(self.answer)}</p><ul>{said}</ul>{rows}"
