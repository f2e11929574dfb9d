"""The MLflow runs of one study: found once by their tags, then written.

Runs have the tags `locus.home`, `locus.study`, `locus.level`, `locus.number` and `locus.seed`, so a second call finds
the same ones, and never those of another home on a shared server. What MLflow lacks of a row is sent. A run that shows
another training than its row (another key or code) is deleted, and the row is written as a new run. Tags that a person
set stay, on the new run too.

An experiment that locus made has the tag `locus.note`. Of another one, only what locus itself added is ever changed.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from getpass import getuser
from pathlib import Path
from typing import Any

from mlflow.entities import Dataset, DatasetInput, Experiment, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from search_spaces.study import Edition, Trial
from search_spaces.words import without_sources
from service.storage.home import Home, default_experiment, remove_member
from service.tracking.databases import AGAIN, MlflowError, check_file, file_of, in_a_sentence, insert_runs, is_there
from service.tracking.row_contents import Point
from service.tracking.rows import STUDY, Row, RunId
from service.tracking.shown import Shown
from trainables.recipe import Recipe
from trainables.spec import digest
from trainables.whole_files import rename_durably

PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"
"""The tag of an experiment, or of a run, that holds its description."""
WRITTEN = "locus.note"
"""The tag with the fingerprint of the description that locus wrote; of an experiment, of two while it changes."""
KIND = {"mlflow.experimentKind": "custom_model_development"}
"""MLflow's word for an experiment that trains."""
HOME = "locus.home"
"""The tag of the home whose study a run shows: on a shared server, others may run the same study."""
OURS = ("locus.", "mlflow.")
"""How tags begin that no person sets."""
MOST_METRICS = 900
"""Metrics in a call; MLflow accepts 1,000 entities."""


class Store:
    """The runs of a study of one home in an experiment of an MLflow store. `home`: its id; `name`: the experiment's.

    `written` counts the calls that changed something. Cost: two calls to look; then none where nothing differs.
    """

    def __init__(self, uri: str, home: str, study: str, name: str) -> None:
        self.client = MlflowClient(tracking_uri=uri)
        self.uri, self.home, self.study, self.name = uri, home, study, name
        self.written = 0
        self.place: Experiment | None = None
        self.shown: dict[RunId, Shown] = {}
        self.others: list[Shown] = []

    @property
    def experiment(self) -> str:
        """The id of the experiment that shows the study."""
        assert self.place is not None
        return str(self.place.experiment_id)

    @property
    def database(self) -> SqlAlchemyStore | None:
        """MLflow's own store where it is a database and no server."""
        store = self.client._tracking_client.store
        return store if isinstance(store, SqlAlchemyStore) else None

    def find(self) -> bool:
        """Looks everything up. False if nothing is shown of this study."""
        self.shown, self.others = {}, []
        place = self.client.get_experiment_by_name(self.name)
        self.place = place if place is not None and place.lifecycle_stage == "active" else None
        for run in map(Shown.of, self._search()) if self.place else ():
            row = run.row_id
            if row is None or self.shown.setdefault(row, run) is not run:
                self.others.append(run)
        return bool(self.shown)

    def _search(self) -> Iterator[Any]:
        mine, token = f"tags.`{HOME}` = '{self.home}' AND tags.`locus.study` = '{self.study}'", None
        while True:
            page = self.client.search_runs([self.experiment], mine, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def make(self, artifacts: Path | None, *, is_own: bool) -> None:
        """Finds everything, and makes the experiment where there is none. `artifacts`: the home's, of a database.

        `is_own`: whether the database is the home's own. MLflow notes whole paths: where the home was moved or copied
        since, all is written again, with files in `artifacts`.
        Raises: MlflowError if the database is a link, which the home that this one was copied from has, too.
        """
        self.find()
        where, file = artifacts.absolute().as_uri() if artifacts else None, file_of(self.uri)
        if is_own and self.place and WRITTEN in self.place.tags and self.place.artifact_location != where:
            if file and file.resolve().parent != file.parent.resolve():
                raise MlflowError(
                    f"MLflow's database sqlite:///{file} must keep its files in {artifacts}, got "
                    f"{self.place.artifact_location}, for the home was moved or copied: {AGAIN}"
                )
            self.client.rename_experiment(self.experiment, f"{self.name} (moved, {self.experiment})")
            self.client.delete_experiment(self.experiment)
            self.place, self.shown = None, {}
        if self.place is None:
            try:
                self.client.create_experiment(
                    self.name, artifact_location=where, tags={**KIND, WRITTEN: fingerprint("")}
                )
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                self._restore()
            self.find()
        while self.others:
            self.client.delete_run(self.others.pop().id)

    def _restore(self) -> None:
        """Takes the experiment out of MLflow's trash, where a person put it. Else another driver was quicker.

        Raises: MlflowError if it is not one of locus.
        """
        experiment = self.client.get_experiment_by_name(self.name)
        if experiment is None or experiment.lifecycle_stage == "active":
            return
        if WRITTEN not in experiment.tags:
            raise MlflowError(
                f"MLflow's experiment {self.name!r} must be one that is not in its trash, for locus did not make it; "
                "restore it there, or give --experiment another name"
            )
        self.client.restore_experiment(experiment.experiment_id)

    def metrics(self) -> dict[str, set[str]]:
        """Returns the names of the metrics that MLflow has of this study, by level."""
        names: dict[str, set[str]] = {}
        for (level, _, _), shown in self.shown.items():
            names.setdefault(level, set()).update(shown.latest)
        return names

    def experiment_tags(self) -> dict[str, str]:
        """Returns the tags of the experiment."""
        return dict(self.client.get_experiment(self.experiment).tags)

    def describe(self, tags: dict[str, str | None]) -> None:
        """Sets tags of the experiment that differ, and deletes those that are None."""
        there = self.experiment_tags()
        for name, value in tags.items():
            if value is None and name in there:
                self.client.delete_experiment_tag(self.experiment, name)
            elif value is not None and there.get(name) != value:
                self.client.set_experiment_tag(self.experiment, name, value)

    def put(self, rows: Sequence[Row]) -> None:
        """Makes MLflow show rows; the parent of a row stands before it, or is shown already.

        Cost: in a database one transaction for new rows; at a server three requests a new row.
        """
        new = [row for row in rows if row.id not in self.shown or not self.shown[row.id].shows(row)]
        old = {row.id: self.shown.pop(row.id) for row in new if row.id in self.shown}
        if self.database is not None:
            self._insert(new, old)
        for row in rows:
            if row.id not in self.shown:
                tags = self._new_tags(row, old.get(row.id))
                run = self.client.create_run(self.experiment, round(row.begun * 1000), tags, row.name)
                self.shown[row.id] = Shown.of(run)
                self.written += 1
            self._complete(row, self.shown[row.id])
        for run in old.values():
            self.client.delete_run(run.id)

    def _insert(self, rows: Sequence[Row], old: dict[RunId, Shown]) -> None:
        """Writes new rows whole, in one transaction: MLflow's calls take 0.1 s a run."""
        assert self.place is not None
        assert self.database is not None
        drafts = []
        for row in rows:
            run = self.shown[row.id] = Shown.draft(row, self._new_tags(row, old.get(row.id)), self.place)
            points = run.news(row)
            run.add(points)
            drafts.append((run, row, points))
        if drafts:
            insert_runs(self.database, self.experiment, drafts)
            self.written += 1

    def _new_tags(self, row: Row, old: Shown | None) -> dict[str, str]:
        """Returns the tags of a new run, those that a person set on the old one included."""
        kept = {name: value for name, value in (old.tags if old else {}).items() if not name.startswith(OURS)}
        tags = kept | self._tags(row) | _origin() | {HOME: self.home}
        return {name: value for name, value in tags.items() if value}

    def _tags(self, row: Row) -> dict[str, str]:
        tags = row.tags | ({PARENT: self.shown[row.parent].id} if row.parent else {})
        return tags | ({WRITTEN: fingerprint(tags[NOTE])} if NOTE in tags else {})

    def _complete(self, row: Row, shown: Shown) -> None:
        """Sends what MLflow lacks of a row. A description that a person wrote stays."""
        params = {name: value for name, value in row.params.items() if name not in shown.params}
        tags = {name: value for name, value in self._tags(row).items() if shown.tags.get(name, "") != value}
        if WRITTEN in shown.tags and fingerprint(shown.tags.get(NOTE, "")) != shown.tags[WRITTEN]:
            tags = {name: value for name, value in tags.items() if name not in (NOTE, WRITTEN)}
        points = shown.news(row)
        chunks = list(_chunks(points)) or ([[]] if params or tags else [])
        for number, chunk in enumerate(chunks, start=1):
            self.client.log_batch(
                shown.id,
                [Metric(k, v, round(p.time * 1000), p.step) for p in chunk for k, v in p.values.items()],
                [Param(name, value) for name, value in params.items()] if number == 1 else [],
                [RunTag(name, value) for name, value in tags.items()] if number == len(chunks) else [],
            )
            self.written += 1
            shown.add(chunk)
        shown.params |= params
        shown.tags |= tags
        if row.status != shown.status:
            if row.status in ("RUNNING", "SCHEDULED"):
                self.client.update_run(shown.id, row.status)
            else:
                self.client.set_terminated(shown.id, row.status, round(row.last * 1000))
            self.written += 1
            shown.status = row.status

    def remove_others(self, rows: set[RunId]) -> None:
        """Deletes the study's runs that are none of these rows, and those made twice, for the first answer was lost."""
        self.shown = {row: run for row, run in self.shown.items() if row in rows}
        kept = {run.id for run in self.shown.values()}
        for run in list(self._search()):
            if run.info.run_id not in kept:
                self.client.delete_run(run.info.run_id)

    def delete(self, artifacts: Path | None) -> None:
        """Deletes every row of the study, and the files of theirs that lie in `artifacts`, the home's own folder."""
        for shown in [*self.shown.values(), *self.others]:
            self.client.delete_run(shown.id)
            if artifacts is not None and re.fullmatch("[0-9a-f]{32}", shown.id):
                with suppress(OSError):  # what stays is of no row any more
                    remove_member(artifacts, shown.id)
        self.shown, self.others = {}, []

    def send_files(self, trials: list[Trial], report: Path | None) -> None:
        """Stores the files of the study, its report and its trials' recipes by label, and its data sets."""
        files = get_artifact_repository(self.shown[STUDY].files, tracking_uri=self.uri)
        recipes = {trial.label: trial.recipe for trial in trials}
        text = json.dumps({label: recipe.plain() for label, recipe in recipes.items()}, indent=1)
        with tempfile.TemporaryDirectory(prefix="locus-recipes-") as folder:
            file = Path(folder) / "recipes.json"
            file.write_text(text, encoding="utf-8")
            files.log_artifact(str(file))
        if report and report.is_dir():
            files.log_artifacts(str(report), "report")
        self.client.log_inputs(self.shown[STUDY].id, _data_sets(recipes.values()))


def make_database(home: Home) -> None:
    """Makes the default database where there is none: under another name, which is changed once it is complete.

    A driver killed while MLflow makes its tables would leave a file that MLflow refuses for ever. Cost: 2-6 s, once.
    """
    if is_there(home.tracking):
        return
    path = home.database
    draft = path.with_name(path.name + ".tmp")
    for left in path.parent.glob(f"{draft.name}*"):
        left.unlink()
    SqlAlchemyStore(f"{home.tracking}.tmp", home.artifacts.absolute().as_uri()).engine.dispose()
    rename_durably(draft, path)


def experiment_of(home: Home, edition: Edition) -> str:
    """Returns the name of the experiment that shows a study, or will by default."""
    file = home.study(edition.id).experiment
    return file.read_text(encoding="utf-8") if file.exists() else default_experiment(edition.study.name)


def look_up(home: Home, edition: Edition, tracking: str | None = None) -> Store | None:
    """Returns a study's runs as MLflow has them; None if it was never shown. Writes nothing.

    Raises: MlflowError if the database cannot be read, or the server answers with an error.
    """
    uri = tracking or home.tracking
    if home.id is None or not is_there(uri):
        return None
    try:
        check_file(uri)
        store = Store(uri, home.id, edition.id, experiment_of(home, edition))
        return store if store.find() else None
    except (MlflowException, SQLAlchemyError) as error:
        raise in_a_sentence(error, tracking or f"sqlite:///{home.database}") from None


def letters(study: str) -> str:
    """Returns the id of a study in letters that a tag may have."""
    return study.replace("@", ".").replace("~", ".")


def fingerprint(note: str) -> str:
    """Returns what a description is known by."""
    return digest(note)


def _origin() -> dict[str, str]:
    """Returns who ran a study with which commit of this project, as MLflow shows it on a run's page."""
    tags = {"mlflow.source.name": "locus", "mlflow.source.type": "LOCAL"}
    with suppress(OSError, KeyError):  # a container's user may have no name
        tags["mlflow.user"] = getuser()
    commit = os.environ.get("LOCUS_COMMIT", "")
    return tags | ({"mlflow.source.git.commit": commit} if commit else {})


def _chunks(points: Iterable[Point]) -> Iterator[list[Point]]:
    chunk: list[Point] = []
    for point in points:
        if chunk and sum(len(other.values) for other in [*chunk, point]) > MOST_METRICS:
            yield chunk
            chunk = []
        chunk.append(point)
    if chunk:
        yield chunk


def _data_sets(recipes: Iterable[Recipe]) -> list[DatasetInput]:
    """Returns each data set once, as MLflow shows it: its name, a digest, and its spec."""
    sets: dict[tuple[str, str], DatasetInput] = {}
    for data in (recipe.data for recipe in recipes):
        name = "/".join(filter(None, (data.kind, getattr(data, "task", ""))))
        identity = name, digest([data.identity(), data.fingerprint])
        source = json.dumps(without_sources(data.plain()), separators=(",", ":"))
        sets[identity] = DatasetInput(
            Dataset(*identity, "local", source), [InputTag("mlflow.data.context", "training")]
        )
    return [*sets.values()]
