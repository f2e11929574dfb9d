"""Collects what the report of a study shows, and writes it as one page, with a file for each table and figure.

<home>/studies/<id>/report/report.html results.csv trials.csv *.svg *.pdf table-*.csv table-*.tex files.json
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import matplotlib as mpl

from search_spaces.study import Study
from search_spaces.words import listed, plural, quoted
from service.analysis.across_trials import tunings
from service.analysis.headline import details, headline
from service.analysis.power import look_words
from service.analysis.study_result import StudyResult
from service.analysis.study_status import left_words, recorded, together
from service.analysis.tables import runs_table, trials_table
from service.analysis.verdicts import Verdict, written_words
from service.planning.forecast import Forecast
from service.reporting import further_tables as further
from service.reporting.figures import classes, curves, probes, rows, search
from service.reporting.figures.plot import STYLE, Drawn, Plot, drawn, inline
from service.reporting.latex import latex, paper_table
from service.reporting.pages import FEW_ROWS, Table, frame_csv, templates
from service.reporting.provenance import effort, surroundings
from service.reporting.results_table import RESULTS, adjusted_words, measured
from service.storage.editions import sources
from service.storage.home import WRITTEN, content_digest
from service.storage.home import written as written_before
from trainables.backbones import ViT
from trainables.encodings import EncodingSpec, OwnEncoding, parts_of
from trainables.spec import LocusError, Spec, SpecError
from trainables.whole_files import write_whole

FIGURES = (
    curves.length_curves, search.landscape, search.optimization_history, curves.data_sizes, rows.dots, rows.forest,
    classes.by_class, curves.size_curves, rows.cost, curves.learning_curves,
)  # fmt: skip
"""The functions that draw the figures of a study's results, the most important first."""
PROBE_FIGURES = (
    probes.similarity_maps, probes.attention_distances, probes.attention_weights, probes.heat_maps,
    probes.terms_by_block, probes.term_maps, probes.shapes, probes.projected, probes.by_block,
)  # fmt: skip
"""The functions that draw the figures of what probes found about the encodings, in the order of a report."""
SYMBOLS = {"SUPPORTED": "✓", "REFUTED": "✕", "INCONCLUSIVE": "?", "NOT JUDGED": "–"}
"""A sign beside each verdict, so that readers need no colors to distinguish them."""


@dataclass(frozen=True)
class Page:
    """Holds everything that a report shows, as text, tables and figures.

    `progress` says how many runs of a running study have ended. `recorded` has the results that were saved at this
    budget before, one paragraph per entry. `results` are the tables before the figures, and `more` those after them.
    `wrong` are the test images that most models have wrong. `probes` and `probe_figures` show what probes found about
    the encodings. `snippet` is Python code that builds a ViT with the best encoding; `command` writes the best model as
    a file. `links` has, by name, the addresses of the study in MLflow.
    """

    id: str
    study: Study
    date: str
    progress: str
    headline: str
    details: list[str]
    recorded: list[str]
    verdicts: list[Verdict]
    verdicts_note: str
    results: list[Table]
    figures: list[Drawn]
    wrong: list[classes.Picture]
    more: list[Table]
    probes: list[Table]
    probe_figures: list[Drawn]
    unfinished: list[Table]
    recipe: list[Table]
    published: list[str]
    sources: list[tuple[str, str]]
    surroundings: list[tuple[str, str, bool]]
    effort: str
    remarks: list[str]
    snippet: str
    command: str
    links: Mapping[str, str]

    @property
    def tables(self) -> list[Table]:
        """Returns all tables, in the order of the page."""
        return [*self.results, *self.more, *self.probes, *self.unfinished, *self.recipe]

    @property
    def all_figures(self) -> list[Drawn]:
        """Returns all figures, in the order of the page."""
        return [*self.figures, *self.probe_figures]

    def number(self, name: str) -> str:
        """Returns the number of the figure or table with this name, with its word: `Figure 2`, `Table 1`."""
        for word, things in (("Table", self.tables), ("Figure", self.all_figures)):
            names = [thing.name for thing in things]
            if name in names:
                return f"{word} {names.index(name) + 1}"
        raise KeyError(name)


def page(result: StudyResult, links: Mapping[str, str], *, running: bool = False) -> Page:
    """Returns the page of a result. `links` has, by name, the addresses of the study in MLflow.

    If `running`, a driver runs the study: the page begins with its progress, and the results with learning curves.
    """
    study = result.edition.study
    drawings = figures(result, FIGURES)
    before = (measured, further.tuned, further.efficiency)
    after = (further.points, further.random_points, further.tuning_points, further.rungs, further.parents)
    by_source: dict[str, list[str]] = {}
    for entry in study.published:
        by_source.setdefault(entry.source, []).append(quoted(entry.who))
    remarks = [tuning.remark for tuning in tunings(result.history, result.rows) if tuning.remark]
    if result.stale:
        stale = f"{plural(result.stale, 'answer')} of other code"
        remarks.append(f"Not counted: {stale}; locus run trains what is missing.")
    return Page(
        id=result.edition.id,
        study=study,
        date=datetime.fromtimestamp(result.history.last or 0.0, UTC).strftime("%-d %B %Y"),
        progress=_progress(result) if running else "",
        headline=headline(result),
        details=details(result),
        recorded=recorded(result.edition, study.name),
        verdicts=result.claims,
        verdicts_note=_verdicts_note(result),
        results=[table for make in before if (table := make(result))],
        figures=sorted(drawings, key=lambda figure: figure.name != "curves") if running else drawings,
        wrong=classes.gallery(result),
        more=[table for make in after if (table := make(result))],
        probes=further.probe_tables(result),
        probe_figures=figures(result, PROBE_FIGURES) if study.probes else [],
        unfinished=[*filter(None, [further.unfinished(result)])],
        recipe=[further.varied(result), *further.shared(result)],
        published=[f"{listed(names)}: {source}" for source, names in by_source.items()],
        sources=[*dict.fromkeys(sources(study.plain()))],
        surroundings=surroundings(result),
        effort=effort(result),
        remarks=remarks,
        snippet=snippet(result),
        command=command(result),
        links=links,
    )


def _progress(result: StudyResult) -> str:
    """Returns how many runs of a running study have ended, and the time left, as `locus status` and the bar say it."""
    history, plan = result.history, result.edition.study.plan
    far = left_words(Forecast(history)(together(history)), plan)
    missing = bool(plan.arms) and any(row.answer.status == "open" for row in result.of("trial"))
    return f"{far}.{' Seeds are missing, so no arm is best yet.' if missing else ''}"


def _verdicts_note(result: StudyResult) -> str:
    """Returns sentences on when the claims were written and, if they are judged, how, and at which look at verdicts."""
    written = written_words(result.history)
    if not result.edition.study.claims or (result.departure is not None and not result.departure.told):
        return written
    decided = (
        "A claim is supported where its 95 % interval lies inside what it says, refuted where it lies outside, and "
        f"inconclusive else. {adjusted_words(result)}. So intervals of claims differ from those of single means in the "
        "table."
    )
    return " ".join(filter(None, [decided, look_words(result.history.looks), written]))


def figures(result: StudyResult, kinds: Sequence[Callable[[StudyResult], Plot | None]]) -> list[Drawn]:
    """Draws the figures of `kinds` for which a result has the numbers, and returns them. Cost: about 0.3 s each."""
    with mpl.rc_context(STYLE):
        return [drawn(plot) for plot in _plots(result, kinds)]


def _plots(result: StudyResult, kinds: Sequence[Callable[[StudyResult], Plot | None]]) -> Iterator[Plot]:
    return (plot for kind in kinds if (plot := kind(result)) is not None)


def write_figure(result: StudyResult, file: Path, *, force: bool = False) -> None:
    """Writes a figure of a result's page as .pdf or .svg: the one that the file is named after, else the first.

    An SVG is light or dark, as its reader's browser is. Raises: SpecError for another ending; LocusError if there is
    no figure, or the file cannot be written.
    """
    if file.suffix not in (".pdf", ".svg"):
        raise SpecError(f"the file of a figure must end in .pdf or .svg, got {file.name!r}")
    if file.exists() and not force:
        raise LocusError(f"{file} must be a new file, got one that is there; --force replaces it")
    kinds = (*FIGURES, *PROBE_FIGURES) if result.edition.study.probes else FIGURES
    with mpl.rc_context(STYLE):
        plots = [*_plots(result, kinds)]
        if not plots:
            raise LocusError(f"{result.edition.id} must have runs that ended, got none; so it has no figure yet")
        figure = drawn(next((plot for plot in plots if plot.name == file.stem), plots[0]))
    content = figure.pdf if file.suffix == ".pdf" else svg_alone(figure)
    try:
        write_whole(file, content)
    except OSError as error:
        raise LocusError(f"a figure's file must be one that can be written, got {file} ({error.strerror})") from None


def svg_alone(figure: Drawn) -> str:
    """Returns the SVG of a figure for other pages than ours: light or dark, as its reader's browser is."""
    style = f"{templates().get_template('colors.css').render()} svg {{ background: var(--paper); }}"
    return inline(figure.svg, figure.caption, style)


TIMM = "vit_tiny_patch16_224"
"""The name of the ViT of timm that the snippet builds, with the sizes of the study's ViT in place of its own."""
POOLS: dict[str, dict[str, Any]] = {
    "token": {},
    "distilled": {},
    "avg": {"class_token": False, "global_pool": "avg"},
    "gap": {"class_token": False, "global_pool": "avg", "fc_norm": False},
}
"""By `model.pool`: timm's arguments for the same pooling. The token for a teacher is used only in training."""

OPTIONS = {"registers": "reg_tokens", "layer_scale": "init_values", "qk_norm": "qk_norm", "drop_path": "drop_path_rate"}
"""By our names: timm's names of those numbers of a ViT that the snippet leaves out if they are zero or not set."""


def snippet(result: StudyResult) -> str:
    """Returns Python code that builds a ViT with the best trial's encoding.

    It is empty if no trial is best, its model is no ViT, or its encoding is of a user's own file.
    """
    best = result.best
    if best is None or not isinstance(best.recipe.model, ViT):
        return ""
    if any(isinstance(part, OwnEncoding) for part in parts_of(best.recipe.encoding)):
        return ""
    data, model = best.recipe.data, best.recipe.model
    channels, rows, columns = data.size
    images = {"img_size": (rows, columns), "in_chans": channels, "num_classes": data.outputs}
    numbers = {
        "patch_size": model.patch_size,
        "embed_dim": model.embed_dim,
        "depth": model.depth,
        "num_heads": model.num_heads,
        "mlp_ratio": model.mlp_ratio,
        **{timms: getattr(model, ours) for ours, timms in OPTIONS.items() if getattr(model, ours)},
        **POOLS[model.pool],
    }
    lines = [
        "import timm",
        "import service",
        "",
        "model = timm.create_model(",
        f'    "{TIMM}", {_arguments(images)},',
        f"    {_arguments(numbers)},",
        ")",
        f"service.attach(model, {written(best.recipe.encoding)})",
    ]
    return "\n".join(lines)


def command(result: StudyResult) -> str:
    """Returns the command that writes the best model as a file; empty if no trial is best, or no model was stored."""
    kept = result.best is not None and any(map(Path.exists, result.best.weights.values()))
    return f"locus export {result.edition.id} --model best.pt" if kept else ""


def written(encoding: EncodingSpec) -> str:
    """Returns the Python code that makes an encoding: with its numbers, and its other values that are no defaults."""
    values = {}
    for name, field in type(encoding).model_fields.items():
        value = getattr(encoding, name)
        default = field.get_default(call_default_factory=True)
        if name != "kind" and (type(value) in (int, float) or value != default):
            values[name] = value
    name = f"service.{type(encoding).__name__}"
    if any(
        isinstance(value, Spec) for value in values.values()
    ):  # such as `mapping`, whose class service does not name
        return f"{name}.read({encoding.identity()!r})"
    return f"{name}({_arguments(values)})"


def _arguments(values: Mapping[str, Any]) -> str:
    """Returns values by name as the arguments of a call in Python: `depth=6, num_heads=3`."""
    return ", ".join(f"{name}={_literal(value)}" for name, value in values.items())


def _literal(value: Any) -> str:
    """Returns the Python code that makes a value."""
    if isinstance(value, tuple):
        return f"({', '.join(map(_literal, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, str):
        return json.dumps(value)
    return written(value) if isinstance(value, EncodingSpec) else repr(value)


def write_report(result: StudyResult, links: Mapping[str, str] | None = None, refresh_s: int | None = None) -> Path:
    """Writes the report of a result and returns the path of its page. Cost: 1-3 s, most of it figures.

    The page is written last, so that all files to which it links are there. `links` has, by name, the study's addresses
    in MLflow. `refresh_s` is the number of seconds after which a browser loads the page again; None is for a study that
    does not run. The study's driver and other commands may write the report at the same time.
    """
    report = page(result, links or {}, running=refresh_s is not None)
    folder = result.home.study(result.edition.id).report
    files: dict[str, str | bytes] = {
        "results.csv": frame_csv(runs_table(result)),
        "trials.csv": frame_csv(trials_table(result)),
    }
    for table in report.tables:
        in_latex = paper_table(result, table) if table.name == RESULTS else table
        files |= {f"table-{table.name}.csv": table.csv(), f"table-{table.name}.tex": latex(in_latex, report.id)}
    for figure in report.all_figures:
        files |= {f"{figure.name}.svg": figure.svg, f"{figure.name}.pdf": figure.pdf}
    template = templates().get_template("report.html.j2")
    files["report.html"] = template.render(
        page=report, study=report.study, symbols=SYMBOLS, few=FEW_ROWS, refresh_s=refresh_s, inline=inline
    )
    earlier, now = written_before(folder), {name: content_digest(content) for name, content in files.items()}
    both = earlier | now | {WRITTEN: ""}  # because the process may end within the next lines
    write_whole(folder / WRITTEN, json.dumps(both, indent=0))
    for name, content in files.items():
        write_whole(folder / name, content)
    for path in folder.iterdir():
        if path.name in earlier.keys() - now.keys() and path.is_file():
            with suppress(FileNotFoundError):  # somebody else removed it
                if earlier[path.name] == content_digest(path.read_bytes()):
                    path.unlink()
    write_whole(folder / WRITTEN, json.dumps(now, indent=0))
    return folder / "report.html"
