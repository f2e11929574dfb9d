"""Whether MLflow shows what the journal says: each row, its state, its curves point by point, params, tags and files.

MLflow is only a mirror. What it lacks because a driver was killed is behind, and the next run sends it: that is no
damage. What it has and should not have is damage.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from service.storage import Check, few
from service.storage.history import History
from service.storage.home import Home
from service.storage.report_files import WRITTEN, as_written
from service.tracking.databases import in_a_sentence
from service.tracking.rows import CODE, STUDY, MlflowStatus, Row, RunId, TrackedRun, begun, equal, rows, strange
from service.tracking.store import NOTE, PARENT, PASSING, RECIPES, Store

WORDS = {NOTE, "locus.headline", "locus.claims"}
"""Tags that are prose. They are not compared: the next run writes them as it would put them then."""
NAME = "mlflow.runName"


@dataclass
class Found:
    """What differs: wrong things, and things that the next run sends."""

    wrong: list[str] = field(default_factory=list)
    behind: list[str] = field(default_factory=list)

    def as_check(self, name: str, looked: int, what: str) -> Check:
        """Returns a check that is good where nothing is wrong."""
        if self.wrong or not self.behind:
            return Check.of(name, looked, what, self.wrong)
        return Check(name, True, f"behind: {few(self.behind)}; the next run sends it")


def compare_with_mlflow(store: Store | None, today: History, home: Home | None, *, alive: bool) -> Iterator[Check]:
    """Compares MLflow with the journal, by the codes that were those of the day when MLflow was last told.

    Raises: MlflowError if MLflow answers with an error.
    `home`: where the store is the home's own. `alive`: a driver runs the study now.
    """
    if store is None:
        yield Check("MLflow", False, "does not know this study; run it again to send it")
        return
    yield Check.of(
        "MLflow copies", len(store.shown), "MLflow runs, none twice", [_double(shown) for shown in store.doubles]
    )
    if home is not None:
        yield _files(store, home, alive=alive)
    if alive:
        yield Check("MLflow", True, "not compared while a driver runs: MLflow may lag")
        return
    study = store.shown.get(STUDY)
    history = today.as_of(study.tags[CODE].split(",")) if study and CODE in study.tags else today
    ended = study.status if study else "RUNNING"
    killed = ended == "RUNNING"
    status: MlflowStatus = "KILLED" if killed else ended
    expected = {row.id: row for row in rows(history, status)}
    yield from _rows(store, history, expected, [*_untold(store, today, history)], killed=killed)
    both = [(place, store.shown[place]) for place in expected if place in store.shown]
    yield _compared(
        "MLflow numbers",
        "MLflow runs with the journal's curves, point by point",
        both,
        expected,
        killed,
        _Curves(store, both),
    )
    yield _compared("MLflow params", "MLflow runs with the params of their trials", both, expected, killed, _params)
    yield _compared(
        "MLflow tags",
        "MLflow runs with the journal's tags (descriptions and headlines are not compared)",
        both,
        expected,
        killed,
        _Tags(store),
    )


def _double(shown: TrackedRun) -> str:
    return f"{_name(shown)} is there twice" if shown.row_id else f"{_name(shown)} has tags that locus does not write"


def _files(store: Store, home: Home, *, alive: bool) -> Check:
    """Checks that what the home's own store keeps of a run lies in the home, and that it has each file as it was sent.

    If a driver runs the study now, files may be on their way: no lost ones are looked for.
    """
    inside = f"{home.artifacts.absolute().as_uri()}/"
    wrong = [
        f"{_name(run)} has its files at {run.files}" for run in store.shown.values() if not run.files.startswith(inside)
    ]
    if wrong and (place := home.original or home.moved_from):
        do = "the next run takes those that lie here for its own"
        return Check("MLflow files", True, f"behind: they are those of {place}, where this home comes from; {do}")
    found, study = Found(wrong), store.shown.get(STUDY)
    if study and study.files.startswith(inside) and not alive and (lost := _lost(store, home)):
        sentence = f"{_name(study)} lacks {few(lost)} (locus run {store.study} sends what is lost again)"
        (found.behind if study.status == "RUNNING" else found.wrong).append(sentence)
    return found.as_check("MLflow files", len(store.shown), "MLflow runs, with their files in the home")


def _lost(store: Store, home: Home) -> list[str]:
    """Returns which files the study's own run has not as they were sent: its recipes, and those of its report."""
    folder, mine = store.local(STUDY), home.study(store.study).report
    assert folder is not None, "the files of the home's own store lie in the home"
    sent = as_written(folder / "report")
    names = {
        name for name in ("report.html", WRITTEN) if (mine / name).exists() and not (folder / "report" / name).is_file()
    }
    names |= {name for name, sound in sent.items() if not sound}
    told = RECIPES in store.shown[STUDY].tags
    lost = ["recipes.json"] * (told and not store.has_recipes()) + [f"report/{name}" for name in sorted(names)]
    return [f"{name} as it was sent" for name in lost]


def _untold(store: Store, today: History, told: History) -> Iterator[str]:
    """Yields the runs by today's code of which MLflow was not told: it was told of other code last."""
    for trial in today.trials:
        for seed, run in begun(today, today.runs(trial)).items():
            code, shown = today.code(run), store.shown.get(place := ("run", trial.label, seed))
            if code != told.code(run) and (shown is None or shown.tags.get(CODE) != code):
                yield f"nothing shows {_words(place)} by today's code"


def _rows(
    store: Store, history: History, expected: dict[RunId, Row], untold: list[str], *, killed: bool
) -> Iterator[Check]:
    """Checks that each row has one MLflow run, which ended as the row did, and that the journal has every other one.

    MLflow runs of other code are those that no later training has replaced.
    """
    places, states = Found(behind=untold), Found()
    lacks = places.behind if killed else places.wrong
    lacks += [f"nothing shows {_words(place)}" for place in sorted(expected.keys() - store.shown.keys(), key=str)]
    strangers = strange(history, expected.keys(), store.shown)
    for place, shown in store.shown.items():
        if place in expected:
            wanted = expected[place].status
            if shown.status == "RUNNING":
                (states.behind if killed else states.wrong).append(f"{_name(shown)} is RUNNING, not {wanted}")
            elif shown.status != wanted:
                states.wrong.append(f"{_name(shown)} is {shown.status}, not {wanted}")
        elif place in strangers:
            places.wrong.append(f"{_name(shown)} is in no journal")
        elif shown.status == "RUNNING":
            (states.behind if killed else states.wrong).append(f"{_name(shown)} is RUNNING")
    yield places.as_check("MLflow runs", len(expected), "trials and runs, each with one MLflow run")
    yield states.as_check("MLflow states", len(store.shown), "MLflow runs that ended as the journal says")


Differ = Callable[[Row, TrackedRun], tuple[set[str], set[str]]]
"""What of an MLflow run is not as a row has it: the names of what is wrong, and of what is not there yet."""


def _compared(
    name: str,
    what: str,
    both: list[tuple[RunId, TrackedRun]],
    expected: dict[RunId, Row],
    killed: bool,
    differ: Differ,
) -> Check:
    """Returns a check of every row. A row that will be replaced is only behind."""
    differences = Found()
    for place, shown in both:
        row = expected[place]
        damaged, lacks = differ(row, shown)
        replaced = any(shown.tags.get(tag) != row.tags[tag] for tag in row.fixed)
        for part in sorted(damaged | lacks):
            later = killed and (part not in damaged or replaced)
            (differences.behind if later else differences.wrong).append(f"{_name(shown)}: {part}")
    return differences.as_check(name, len(both), what)


class _Curves:
    """Compares curves, all of which are asked for when it is made."""

    def __init__(self, store: Store, both: list[tuple[RunId, TrackedRun]]) -> None:
        try:
            self._curves = store.curves(shown for place, shown in both if place != STUDY)
        except (MlflowException, SQLAlchemyError) as error:
            raise in_a_sentence(error, store.uri) from None

    def __call__(self, row: Row, shown: TrackedRun) -> tuple[set[str], set[str]]:
        if row.id != STUDY:
            return shown.differs(row, self._curves[shown.id])
        # its points are how far it was whenever MLflow was told, which no journal repeats
        last = {name: value for point in row.points for name, value in point.values.items()}
        lacks = {name for name in last if name not in shown.latest or not equal(shown.latest[name], last[name])}
        return set(), lacks | shown.surplus(last)


def _params(row: Row, shown: TrackedRun) -> tuple[set[str], set[str]]:
    return shown.other_params(row), row.params.keys() - shown.params.keys()


class _Tags:
    """Compares tags. They may change while a study runs, so another value is not there yet; others are a person's."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def __call__(self, row: Row, shown: TrackedRun) -> tuple[set[str], set[str]]:
        parent = self._store.shown.get(row.parent) if row.parent else None
        wanted = row.tags | {NAME: row.name} | ({PARENT: parent.id} if parent else {})
        if row.id == STUDY:
            del wanted[CODE]  # it says by which codes all is compared
        passed = PASSING & shown.tags.keys() - wanted.keys()
        differ = {name for name, value in wanted.items() if shown.tags.get(name) != value}
        return set(), (differ | passed) - WORDS


def _words(place: RunId) -> str:
    level, number, seed = place
    return f"{level} {number}" + ("" if seed is None else f" seed {seed}")


def _name(shown: TrackedRun) -> str:
    return shown.tags.get(NAME, shown.id)
