"""Shows the results of studies in Python and notebooks: one with tables, model and report, or two side by side.

result = Result.open(Home.find(), "fourier-gamma@cpu")
result.trials(); result.best.model(); result.claims; result.report()
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, NamedTuple

from search_spaces.study import Edition
from service.analysis.comparison import Comparison, side
from service.analysis.findings import finding
from service.analysis.headline import headline
from service.analysis.probes import RunProbes
from service.analysis.study_result import StudyResult
from service.analysis.trial_result import Training, TrialResult
from service.execution.submission import Submission, fetched
from service.storage.home import Home, StudyFolder
from service.terminal.live import news
from trainables.cgroup import cores
from trainables.recipe.findings import FURTHER_IMAGES, RIGHT_IMAGES
from trainables.spec import LocusError
from trainables.whole_files import require_writable

if TYPE_CHECKING:
    from pandas import DataFrame

    from service.tracking.views import Links
    from trainables.training.trained import TrainedModel


class ReportPath(PosixPath):
    """Is the path of a report; a notebook shows the page itself in its place."""

    def _repr_html_(self) -> str:
        page = html.escape(self.read_text(encoding="utf-8"))
        return f'<iframe srcdoc="{page}" style="width:100%;height:48rem;border:0"></iframe>'


class Result(StudyResult):
    """Adds to a study's result the tables and the report that Python and notebooks show."""

    @property
    def headline(self) -> str:
        """Returns a sentence that answers the study's question."""
        return headline(self)

    def table(self) -> DataFrame:
        """Returns the table of the study's runs, one row per run."""
        from service.analysis.tables import runs_table

        return runs_table(self)

    def trials(self) -> DataFrame:
        """Returns the table of trials, one row per trial: n, mean, spread, interval, difference to the baseline."""
        from service.analysis.tables import trials_table

        return trials_table(self)

    def latex(self, columns: Sequence[str] = ()) -> str:
        """Returns the table of results as LaTeX (booktabs, array): by default with five columns, as in a paper.

        `columns` are the names of the columns to show in their place, such as score and p, in order; or `all` alone.
        Raises: LocusError if no trial has an answer; SpecError for a column that the study does not have.
        """
        from service.reporting.latex import as_latex

        return as_latex(self, columns)

    def figure(self, path: str | Path, *, force: bool = False) -> Path:
        """Writes a figure of the report as .pdf or .svg, and returns the file's path.

        A file that is named after a figure, such as `trials.pdf`, gets that one, another name the report's first.
        `force` replaces a file that is there. Raises: LocusError if there is no figure, or the file cannot be written.
        """
        from service.reporting.page import write_figure

        write_figure(self, Path(path), force=force)
        return Path(path)

    def report(self, links: Links | None = None, *, refresh_s: int | None = None) -> ReportPath:
        """Writes the report (HTML, figures, tables) and returns the path of its page. Cost: 1-3 s.

        `links` has the addresses of the study in MLflow; without it a server at `mlflow_url` is asked. `refresh_s` is
        the number of seconds after which a browser loads the page again; None is for a page that stays as it is.
        Raises: LocusError in a home that can only be read.
        """
        require_writable(self.home.study(self.edition.id).report, "; copy the home, and report with --home COPY")
        from service.reporting.page import write_report

        if links is None and (self.mlflow_url or "").startswith("http"):
            from service.tracking.server import reachable_links

            links = reachable_links(self.home, self.edition, (self.mlflow_url or "").partition("/#/")[0])
        named = {"trials": links.trials, "runs": links.runs, "the study": links.parent} if links else {}
        return ReportPath(write_report(self, named, refresh_s))

    @staticmethod
    def find_run_id(home: Home, edition: Edition, tracking: str | None, training: Training) -> str:
        """Returns the id of the MLflow run that shows a training. Raises: LocusError as `find_run` does."""
        from service.tracking.registry import find_run

        return find_run(home, edition, tracking, training).id

    def register(self, name: str, model: TrainedModel, label: str) -> str:
        """Logs a trained model to the MLflow run that shows its training, registers it, and returns the model's URI.

        `name` is the model's name in the registry, and `label` is the trial's label.
        Raises: LocusError if MLflow has no such run, or torch cannot export the model.
        """
        from service.tracking.registry import find_run, register

        facts = model.facts
        training = Training(label, facts.seed, facts.key, facts.code)
        run = find_run(self.home, self.edition, self.tracking, training)
        return register(self.home, self.tracking, run, name, model)

    def __repr__(self) -> str:
        head = f"{self.edition.id}: {self.edition.study.question}"
        verdicts = [f"  {verdict}" for verdict in self.claims]
        return "\n".join(filter(None, [head, self.headline, str(self.saved), *verdicts]))

    def _repr_html_(self) -> str:
        from service.analysis.tables import brief_table

        verdicts = "".join(f"<li>{html.escape(str(verdict))}</li>" for verdict in self.claims)
        head = f"<b>{html.escape(self.edition.id)}</b> {html.escape(self.edition.study.question)}"
        rows = brief_table(self).to_html(index=False)
        return f"<p>{head}</p><p>{html.escape(self.headline)}</p><ul>{verdicts}</ul>{rows}"


def watch_report(
    folder: StudyFolder,
    opened: Callable[[], Result],
    every_s: int,
    show: Callable[[Result, Path], object],
    pause: Callable[[float], object] = time.sleep,
) -> Result:
    """Writes a study's report every `every_s` seconds while a driver runs the study, and at its end.

    It returns the last result. `opened` reads the result as it is now, and `show` gets each result and the path of its
    page. If the journal has no new fact, no page is written. `pause` waits for some seconds.
    Raises: KeyboardInterrupt, after a page that a browser does not load again.
    """
    try:
        for alive in news(folder, every_s, pause):
            result = opened()
            show(result, result.report(refresh_s=every_s if alive else None))
    except KeyboardInterrupt:
        opened().report()
        raise
    return result


class SubmittedStudy(Submission):
    """Is a study that was submitted to a cluster, and can return the study's result.

    The result is read from the home, if this machine sees it; else an archive of the study is fetched from the cluster.
    """

    def wait(self) -> Result:
        """Waits until the cluster's job has ended, and returns the result.

        Raises: SubmissionError for a job that failed; LocusError if the result cannot be had from here.
        """
        self.wait_for_end()
        return self.result()

    def result(self) -> Result:
        """Returns the study's result so far, with the runs that other commands have added since the job.

        Raises: LocusError if the result cannot be had from here.
        """
        facts = self.facts()
        id = self.study
        home = self.visible_home(facts)
        if home is None or id not in home.ids():
            where = facts.get("home") or self.home
            origin = f"{where or 'the home'} of the cluster at {self.address}"
            home = fetched(self.archive(id, where), origin)
        return Result.open(home, id, facts.get("mlflow") or None)


@dataclass(frozen=True, repr=False)
class ComparedStudies(Comparison):
    """Adds to a comparison of two studies its table and its page."""

    home: Home

    @property
    def headline(self) -> str:
        """Returns a sentence that says in which trials the two studies differ significantly."""
        from service.reporting.pages import comparison_headline

        return comparison_headline(self)

    @property
    def notes(self) -> list[str]:
        """Returns sentences on what the numbers mean, and on the trials that only one of the two studies has."""
        from service.reporting.pages import comparison_note, only_words

        return list(filter(None, [*only_words(self), comparison_note(self)]))

    def table(self) -> DataFrame:
        """Returns a table with a row per trial that both have: scores, difference, interval, p, and kind of test."""
        from service.analysis.tables import Table

        return Table.of(self.plain()["trials"], " ".join([self.headline, *self.notes]))

    def report(self) -> Path:
        """Writes the page of the comparison beside the report of A, and returns the path of the page."""
        from service.reporting.pages import write_comparison

        return write_comparison(self.home, self)

    def __repr__(self) -> str:
        notes = "\n".join(f"  note: {warning}" for warning in self.warnings)
        return f"A: {self.a.label}\nB: {self.b.label}\n{self.headline}\n{notes}".rstrip()

    def _repr_html_(self) -> str:
        heads = f"<p>A: <b>{html.escape(self.a.label)}</b><br>B: <b>{html.escape(self.b.label)}</b></p>"
        notes = "".join(f"<li>{html.escape(warning)}</li>" for warning in self.warnings)
        rows = self.table().to_html(index=False) if self.matches else ""
        return f"{heads}<p>{html.escape(self.headline)}</p><ul>{notes}</ul>{rows}"


def compare(home: Home, a: str, b: str) -> ComparedStudies:
    """Returns the comparison of the two studies with these ids. Raises: LocusError if both ids are the same."""
    if a == b:
        raise LocusError(f"compare must be given two studies or versions, got {a} twice")
    one, other = (StudyResult.open(home, id) for id in (a, b))
    return ComparedStudies(side(one), side(other), home)


class Todo(NamedTuple):
    """Names a probe, or a look at a kept model, whose findings are not stored yet: its trial, seed, run and name."""

    row: TrialResult
    seed: int
    run: RunProbes
    name: str


MOST_TOLD = 5
"""The number of failed probes for each of which a sentence is printed; the others are only counted."""


def compute_probes(result: StudyResult, note: Callable[[str], None], stopped: Callable[[], bool]) -> None:
    """Computes the study's probes that are not stored yet, until all are there or a person stops it.

    `note` is called with a sentence before the first probe, after each tenth of ten probes or more, and for the first
    probes that fail. If one fails, the others go on, and the report says which are missing. `stopped` says whether a
    person asked for a stop. If torch is not installed, nothing is computed.
    """

    def tell(kind: str, **values: object) -> None:
        note(str(finding(kind, **values)))

    named = result.edition.study.probes
    probes = _missing((row, name) for row in result.compared for name in named)
    models = [todo for todo in _missing(result.looked_at) if todo.run.can_be_computed]
    if probes:
        tell("probes.to compute", probes=len(probes), runs=sum(len(row.probes) for row in result.compared))
    for look, kind in ((FURTHER_IMAGES, "probes.further images"), (RIGHT_IMAGES, "probes.right images")):
        if looks := sum(todo.name == look for todo in models):
            tell(kind, models=looks)

    count = len(probes) + len(models)
    tenths = {count * tenth // 10 for tenth in range(1, 10)} if count >= 10 else {}
    computed = chain(_computed(probes, 1, stopped), _computed(models, cores(), stopped))
    begun, failed = time.monotonic(), 0
    try:
        for done, (where, error) in enumerate(computed, start=1):
            if done in tenths:
                left = (time.monotonic() - begun) / done * (count - done)
                tell("probes.done", done=done, count=count, left=left)
            if isinstance(error, ModuleNotFoundError):
                raise error
            if error is not None:  # the study has its answers, which no probe may take from it
                failed += 1
                if failed <= MOST_TOLD:
                    why = str(error) if isinstance(error, LocusError) else f"{type(error).__name__}: {error}"
                    tell("probes.failed", where=where, why=why)
    except ModuleNotFoundError as error:
        tell("probes.not installed", package=error.name)
    if failed > MOST_TOLD:
        tell("probes.more failed", count=failed - MOST_TOLD)
    looks_again = [todo.run.kept(todo.name) for todo in models if todo.name == RIGHT_IMAGES]
    if notes := [probed.after.note for probed in looks_again if probed is not None and probed.after.note]:
        tell("probes.unlike", models=len(notes), why=notes[0])


def _missing(named: Iterable[tuple[TrialResult, str]]) -> list[Todo]:
    """Returns the probes that are not stored yet. `named` pairs each trial with the name of a probe."""
    runs = (Todo(row, seed, run, name) for row, name in named for seed, run in row.probes.items())
    return [todo for todo in runs if todo.run.kept(todo.name) is None]


def _computed(
    todo: list[Todo], threads: int, stopped: Callable[[], bool]
) -> Iterator[tuple[str, BaseException | None]]:
    """Computes probes, `threads` of them at a time and each on one thread, until a person stops it.

    Yields, for each probe that is done, its name in words and the error that it raised, or None.
    Raises: ModuleNotFoundError.
    """
    if not todo:
        return
    from trainables.training.runtime import runtime

    def compute(run: RunProbes, name: str) -> None:
        if not stopped():
            run(name)

    with runtime(1, "float64"), ThreadPoolExecutor(threads) as pool:  # what threads restore is what is set here
        try:
            tasks = [(pool.submit(compute, one.run, one.name), one) for one in todo]
            for task, one in tasks:  # in order, so that each command prints sentences about the same probes
                error = task.exception()
                if stopped():
                    return
                yield f"{one.name} of {one.row.name}, seed {one.seed}", error
        finally:  # an interrupted study begins none of the others
            pool.shutdown(cancel_futures=True)
