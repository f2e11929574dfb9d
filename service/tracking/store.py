"""The MLflow runs of one study: found once, then brought from what they show to what they should show.

Runs are found by the tags `locus.home`, `locus.study`, `locus.level`, `locus.number` and `locus.seed`, so a second call
finds the same ones, and never those of another home on a shared server. MLflow only appends: params cannot change and
points cannot be deleted, so a run whose params or points are those of another training, or that a person deleted, is
replaced, and its children get the new parent.

An experiment that locus made has the tag `locus.note`. Of another one, only what locus itself added is ever changed.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections import ChainMap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from getpass import getuser
from pathlib import Path
from typing import Any

from mlflow.entities import Dataset, DatasetInput, Experiment, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repo import ArtifactRepository
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import SQLAlchemyError

from search_spaces.study import Edition, Trial
from search_spaces.words import without_sources
from service.storage.home import Home, default_experiment, remove_member
from service.tracking.databases import (
    MlflowError,
    check_file,
    drafted,
    in_a_sentence,
    insert_runs,
    is_there,
)
from service.tracking.row_contents import Point
from service.tracking.rows import STUDY, WRITTEN, Row, RunId, TrackedRun
from trainables.recipe import Recipe
from trainables.spec import digest
from trainables.whole_files import rename_durably

PARENT = "mlflow.parentRunId"
NOTE = "mlflow.note.content"
"""The tag of an experiment, or of a run, that holds its description."""
MARK = "locus.shows."
"""How a tag begins by which an experiment is found that shows a study."""
KIND = {"mlflow.experimentKind": "custom_model_development"}
"""MLflow's word for an experiment that trains."""
RECIPES = "locus.recipes"
"""The tag of the study's run with the digest of its file of recipes."""
HOME = "locus.home"
"""The tag of the home whose study a run shows: on a shared server, others may run the same study."""
PASSING = {
    "locus.reason", "locus.reused", "locus.best", "locus.headline", "locus.claims", "locus.score", "locus.test",
}  # fmt: skip
"""Tags that a row may lose again."""
MOST_METRICS = 900
"""Metrics in a call; MLflow accepts 1,000 entities."""


class Store:
    """The runs of a study of one home in an MLflow store. `home`: its id. `default`, `chosen`: names of experiments.

    The study is shown in the experiment that was chosen; else where it is shown already; else in the default one.
    `written` counts the calls that changed something. Cost: three calls to look; then no call where nothing differs.
    """

    def __init__(self, uri: str, home: str, study: str, default: str, chosen: str | None = None) -> None:
        self.client = MlflowClient(tracking_uri=uri)
        self.uri = uri
        self.home = home
        self.study = study
        self.written = 0
        self.place: Experiment | None = None
        self.shown: dict[RunId, TrackedRun] = {}
        self.doubles: list[TrackedRun] = []
        self.left: set[str] = set()
        self._chosen = chosen
        self._name = chosen or default

    @property
    def experiment(self) -> str:
        """The id of the experiment that shows the study."""
        assert self.place is not None
        return str(self.place.experiment_id)

    def find(self) -> bool:
        """Looks everything up, once. False if nothing was ever shown of this study."""
        self.shown.clear()
        self.doubles.clear()
        places = {place.experiment_id: place for place in self._places()}
        runs = [*map(TrackedRun.of, self._search([*places]))] if places else []
        at = next((run.experiment for run in runs if run.row_id == STUDY), runs[0].experiment if runs else None)
        named = next((place for place in places.values() if place.name == self._name), None)
        self.place = places[at] if at and not self._chosen else named
        for shown in runs:
            place = shown.row_id
            here = place is not None and self.place is not None and shown.experiment == self.experiment
            if not here or place is None or self.shown.setdefault(place, shown) is not shown:
                self.doubles.append(shown)
        self.left = {run.experiment for run in self.doubles} - {run.experiment for run in self.shown.values()}
        self.left -= {self.experiment} if self.place else set()
        return bool(runs)

    def _places(self) -> Iterator[Experiment]:
        """Yields the experiments that may show the study: those that are marked so, and the one with its name."""
        named = self.client.get_experiment_by_name(self._name)
        if named is not None and named.lifecycle_stage == "active":
            yield named
        yield from self.client.search_experiments(filter_string=f"tags.`{self._mark}` = '{self.study}'")

    @property
    def _mark(self) -> str:
        return f"{MARK}{self.home}.{letters(self.study)}"

    def make(self, artifacts: Path | None) -> None:
        """Finds everything, makes the experiment where there is none, and ends doubles that a crash may have left."""
        self.find()
        if self.place is None:
            try:
                where = artifacts.absolute().as_uri() if artifacts else None
                mine = {**KIND, WRITTEN: fingerprint(""), self._mark: self.study}
                self.client.create_experiment(self._name, artifact_location=where, tags=mine)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                self._restore()
            self.find()
        self.describe({self._mark: self.study})
        while self.doubles:
            self.client.delete_run(self.doubles.pop().id)

    def _restore(self) -> None:
        """Takes the experiment out of MLflow's trash, where a person put it. Else another driver was quicker.

        Raises: MlflowError if it is not one of locus.
        """
        experiment = self.client.get_experiment_by_name(self._name)
        if experiment is None or experiment.lifecycle_stage == "active":
            return
        if WRITTEN not in experiment.tags:
            raise MlflowError(
                f"MLflow's experiment {self._name!r} must be one that is not in its trash, for locus did not make it; "
                "restore it there, or give --experiment another name"
            )
        self.client.restore_experiment(experiment.experiment_id)

    def remove_doubles(self) -> None:
        """Deletes runs beside those that are known: of no journal, or made twice, for the first answer was lost."""
        known = {shown.id for shown in self.shown.values()}
        for run in list(self._search([self.experiment])):
            if run.info.run_id not in known:
                self.client.delete_run(run.info.run_id)

    def _search(self, experiments: list[str]) -> Iterator[Any]:
        token: str | None = None
        asked = f"tags.`{HOME}` = '{self.home}' AND tags.`locus.study` = '{self.study}'"
        while True:
            page = self.client.search_runs(experiments, asked, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def metrics(self) -> dict[str, set[str]]:
        """Returns the names of the metrics that MLflow has of this study, by level."""
        names: dict[str, set[str]] = {}
        for (level, _, _), shown in self.shown.items():
            names.setdefault(level, set()).update(shown.latest)
        return names

    def experiment_tags(self, place: str | None = None) -> dict[str, str]:
        """Returns the tags of the experiment, or of another one."""
        return dict(self.client.get_experiment(place or self.experiment).tags)

    def describe(self, tags: dict[str, str | None], place: str | None = None) -> None:
        """Sets tags of the experiment (or of another one) that differ, and deletes those that are None."""
        there = self.experiment_tags(place)
        for name, value in tags.items():
            if value is None and name in there:
                self.client.delete_experiment_tag(place or self.experiment, name)
            elif value is not None and there.get(name) != value:
                self.client.set_experiment_tag(place or self.experiment, name, value)

    def unmark(self, place: str) -> None:
        """Takes the sign away that an experiment shows this study."""
        self.describe({self._mark: None}, place)

    def put(self, row: Row) -> None:
        """Makes MLflow show a row. Its parent is put before it. A run that a person deleted is made again."""
        try:
            self._put(row)
        except MlflowException:
            shown = self.shown.get(row.id)
            if shown is None or not self._is_deleted(shown):
                raise
            self._complete(row, self._replace(row, shown))

    def _put(self, row: Row) -> None:
        if row.id not in self.shown:
            self.create([row])
        shown = self.shown[row.id]
        others = shown.latest and any(shown.tags.get(name) != row.tags[name] for name in row.fixed)
        if others or any(row.params.get(name, value) != value for name, value in shown.params.items()):
            shown = self._replace(row, shown)
        self._complete(row, shown)

    def log_folder(self, place: RunId, folder: Path, name: str) -> None:
        """Copies a folder to the artifacts of a row, under a name."""
        self._files(place).log_artifacts(str(folder), name)

    def log_file(self, place: RunId, file: Path) -> None:
        """Copies a file to the artifacts of a row; an earlier one of its name is replaced."""
        self._files(place).log_artifact(str(file))

    def _files(self, place: RunId) -> ArtifactRepository:
        return get_artifact_repository(self.shown[place].files, tracking_uri=self.uri)

    def tell_recipes(self, trials: list[Trial]) -> None:
        """Stores what the study's trials are, as files of its own run: their recipes by label, and their data sets."""
        recipes = {trial.label: trial.recipe for trial in trials}
        text = json.dumps({label: recipe.plain() for label, recipe in recipes.items()}, indent=1)
        shown, mark = self.shown[STUDY], digest(text)
        if shown.tags.get(RECIPES) == mark:
            return
        with tempfile.TemporaryDirectory(prefix="locus-recipes-") as folder:
            file = Path(folder) / "recipes.json"
            file.write_text(text, encoding="utf-8")
            self.log_file(STUDY, file)
        self.client.log_inputs(shown.id, [*_data_sets(recipes.values())])
        self.client.set_tag(shown.id, RECIPES, mark)
        shown.tags[RECIPES] = mark

    def delete(self, artifacts: Path) -> None:
        """Deletes every row of the study; files of theirs go where they lie in the home's own folder of artifacts."""
        for shown in [*self.shown.values(), *self.doubles]:
            self.client.delete_run(shown.id)
            if re.fullmatch("[0-9a-f]{32}", shown.id):
                with suppress(OSError):  # what stays is of no row any more
                    remove_member(artifacts, shown.id)
                    for folder in artifacts.glob(f"*/{shown.id}"):
                        remove_member(artifacts, folder.parent.name, shown.id)
        self.shown.clear()
        self.doubles.clear()

    def create(self, rows: Sequence[Row]) -> None:
        """Makes new MLflow runs of rows, parents first: in a database whole, in one transaction.

        At a server they lack what `put` sends them next: a run costs three requests, and none is for several runs.
        """
        store = self.client._tracking_client.store
        if not isinstance(store, SqlAlchemyStore):
            for row in rows:
                self.shown[row.id] = self._request(row)
            return
        assert self.place is not None
        new: dict[RunId, TrackedRun] = {}
        known = ChainMap(new, self.shown)
        for row in rows:
            new[row.id] = drafted(row, self._tags(row, known) | _origin() | {HOME: self.home}, self.place)
        insert_runs(store, self.experiment, zip(rows, new.values(), strict=True))
        self.written += 1
        self.shown |= new

    def _request(self, row: Row) -> TrackedRun:
        tags = self._tags(row, self.shown)
        tags = {name: value for name, value in tags.items() if name not in row.fixed or not row.points}
        tags |= _origin() | {HOME: self.home}
        run = self.client.create_run(self.experiment, round(row.begun * 1000), tags, row.name)
        self.written += 1
        return TrackedRun.of(run)

    def _replace(self, row: Row, old: TrackedRun) -> TrackedRun:
        self.create([row])
        new = self.shown[row.id]
        for child in self.shown.values():
            if child.tags.get(PARENT) == old.id:
                self.client.set_tag(child.id, PARENT, new.id)
                child.tags[PARENT] = new.id
        if not self._is_deleted(old):
            self.client.delete_run(old.id)
        return new

    def _is_deleted(self, shown: TrackedRun) -> bool:
        """Returns whether a run is in MLflow's trash, or gone for good."""
        try:
            return bool(self.client.get_run(shown.id).info.lifecycle_stage == "deleted")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return True

    def _tags(self, row: Row, known: Mapping[RunId, TrackedRun]) -> dict[str, str]:
        return row.tags | ({PARENT: known[row.parent].id} if row.parent else {})

    def _complete(self, row: Row, shown: TrackedRun) -> None:
        """Sends what is missing, each thing once."""
        params = {name: value for name, value in row.params.items() if name not in shown.params}
        tags = {name: value for name, value in self._tags(row, self.shown).items() if shown.tags.get(name) != value}
        points = shown.news(row) if row.only_changes else [point for point in row.points if point.step > shown.step]
        if params or tags or points:
            self._log(shown, points, params, tags)
        for name in PASSING & shown.tags.keys() - row.tags.keys():
            self._delete_tag(shown, name)
        self._settle(row, shown)

    def _delete_tag(self, shown: TrackedRun, name: str) -> None:
        """Deletes a tag, also if an earlier call did so and its answer was lost."""
        try:
            self.client.delete_tag(shown.id, name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST" or self._is_deleted(shown):
                raise
        del shown.tags[name]

    def _log(self, shown: TrackedRun, points: list[Point], params: dict[str, str], tags: dict[str, str]) -> None:
        """Logs params first, tags last: a tag that names the points is there only if the points are."""
        chunks = list(_chunks(points)) or [[]]
        for number, chunk in enumerate(chunks, start=1):
            self.client.log_batch(
                shown.id,
                [Metric(k, v, round(p.time * 1000), p.step) for p in chunk for k, v in p.values.items()],
                [Param(name, value) for name, value in params.items()] if number == 1 else [],
                [RunTag(name, value) for name, value in tags.items()] if number == len(chunks) else [],
            )
            self.written += 1
            for point in chunk:
                shown.step = max(shown.step, point.step)
                shown.latest |= point.values
        shown.params |= params
        shown.tags |= tags

    def _settle(self, row: Row, shown: TrackedRun) -> None:
        if row.status == shown.status:
            return
        if row.status == "RUNNING":
            self.client.update_run(shown.id, "RUNNING")
        else:
            self.client.set_terminated(shown.id, row.status, round(row.last * 1000))
        self.written += 1
        shown.status = row.status


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


def look_up(home: Home, edition: Edition, tracking: str | None = None) -> Store | None:
    """Returns a study's runs as MLflow has them; None if it was never shown. Writes nothing.

    Raises: MlflowError if the database cannot be read, or the server answers with an error.
    """
    uri, name = tracking or home.tracking, home.id
    if name is None or not is_there(uri):
        return None
    shown = tracking or f"sqlite:///{home.database}"
    try:
        check_file(uri)
        store = Store(uri, name, edition.id, default_experiment(edition.study.name))
        return store if store.find() else None
    except (MlflowException, SQLAlchemyError) as error:
        raise in_a_sentence(error, shown) from None


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


def _data_sets(recipes: Iterable[Recipe]) -> Iterator[DatasetInput]:
    """Yields each data set once, as MLflow shows it: its name, a digest, and its spec."""
    seen: set[tuple[str, str]] = set()
    for data in (recipe.data for recipe in recipes):
        name = "/".join(filter(None, (data.kind, getattr(data, "task", ""))))
        known = name, digest([data.identity(), data.fingerprint])
        if known not in seen:
            seen.add(known)
            source = json.dumps(without_sources(data.plain()), separators=(",", ":"))
            yield DatasetInput(Dataset(*known, "local", source), [InputTag("mlflow.data.context", "training")])
