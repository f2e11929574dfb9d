"""The MLflow runs of one study: found once, then brought from what they show to what they should show.

Runs are found by the tags `locus.home`, `locus.study`, `locus.level`, `locus.number` and `locus.seed`, so a second call
finds the same ones, and never those of another home on a shared server. MLflow only appends: params cannot change and
points cannot be deleted, so a run whose points are no longer right, or that a person deleted, is replaced, and its
children get the new parent.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.exceptions import MlflowException
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking import MlflowClient
from sqlalchemy.exc import DatabaseError

from search_spaces.study import Edition
from search_spaces.words import without_sources
from service.storage.home import Home
from service.storage.tracking_uri import without_secrets
from service.tracking.mean_curve import Point
from service.tracking.rows import STUDY, MlflowStatus, Row, RunId
from trainables.recipe import Recipe
from trainables.spec import LocusError, digest

PARENT = "mlflow.parentRunId"
HOME = "locus.home"
"""The tag of the home whose study a run shows: on a shared server, others may run the same study."""
PASSING = {
    "locus.reason", "locus.reused", "locus.best", "locus.headline", "locus.claims", "locus.score", "locus.test",
}  # fmt: skip
"""Tags that a row may lose again."""
MOST_METRICS = 900
"""Metrics in a call; MLflow accepts 1,000 entities."""


class MlflowError(LocusError):
    """An MLflow that cannot be used."""


@dataclass
class TrackedRun:
    """What MLflow has of one row. `step`: the last one with points. `latest`: every metric's last value."""

    id: str
    status: MlflowStatus
    params: dict[str, str]
    tags: dict[str, str]
    latest: dict[str, float]
    step: int

    @classmethod
    def of(cls, run: Any) -> TrackedRun:
        """From MLflow's own entity."""
        step = max((metric.step for metric in run.data._metric_objs), default=-1)
        return cls(run.info.run_id, run.info.status, run.data.params, run.data.tags, run.data.metrics, step)

    @property
    def row_id(self) -> RunId:
        """The row it shows."""
        seed = self.tags.get("locus.seed")
        return self.tags["locus.level"], self.tags.get("locus.number", ""), None if seed is None else int(seed)


class Store:
    """The runs of a study of one home in an MLflow store. `home`: its id.

    Cost: one search; then 2-10 ms a call, and no call where nothing differs.
    """

    def __init__(self, uri: str, home: str, study: str, family: str) -> None:
        self.client = MlflowClient(tracking_uri=uri)
        self.home = home
        self.study = study
        self.family = family
        self.experiment: str | None = None
        self.shown: dict[RunId, TrackedRun] = {}
        self.doubles: list[TrackedRun] = []

    def find(self) -> bool:
        """Looks everything up, once. False where nothing was ever shown of this family of studies."""
        experiment = self.client.get_experiment_by_name(self.family)
        if experiment is None or experiment.lifecycle_stage != "active":
            return False
        self.experiment = experiment.experiment_id
        for shown in map(TrackedRun.of, self._search()):
            if self.shown.setdefault(shown.row_id, shown) is not shown:
                self.doubles.append(shown)
        return True

    def make(self, artifacts: Path | None) -> None:
        """Finds everything, makes the experiment where there is none, and ends doubles that a crash may have left."""
        if not self.find():
            try:
                where = artifacts.absolute().as_uri() if artifacts else None
                self.experiment = self.client.create_experiment(self.family, artifact_location=where)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                self._restore()
                self.find()
        while self.doubles:
            self.client.delete_run(self.doubles.pop().id)

    def _restore(self) -> None:
        """Takes the experiment out of MLflow's trash, where a person put it. Else another driver was quicker."""
        experiment = self.client.get_experiment_by_name(self.family)
        if experiment is not None and experiment.lifecycle_stage != "active":
            self.client.restore_experiment(experiment.experiment_id)

    def remove_doubles(self) -> None:
        """Deletes runs beside those that are known: a call whose answer was lost is made twice, and makes two runs."""
        known = {shown.id for shown in self.shown.values()}
        for run in list(self._search()):
            if run.info.run_id not in known:
                self.client.delete_run(run.info.run_id)

    def _search(self) -> Iterator[Any]:
        token: str | None = None
        asked = f"tags.`{HOME}` = '{self.home}' AND tags.`locus.study` = '{self.study}'"
        while True:
            found = self.client.search_runs([self.experiment], asked, max_results=1000, page_token=token)
            yield from found
            token = found.token
            if not token:
                return

    def metrics(self) -> dict[str, set[str]]:
        """The names of the metrics that MLflow has of this study, by level."""
        found: dict[str, set[str]] = {}
        for (level, _, _), shown in self.shown.items():
            found.setdefault(level, set()).update(shown.latest)
        return found

    def experiment_tags(self) -> dict[str, str]:
        """The tags of the experiment."""
        return dict(self.client.get_experiment(self.experiment).tags)

    def describe(self, tags: dict[str, str | None]) -> None:
        """Sets tags of the experiment that differ, and deletes those that are None."""
        there = self.experiment_tags()
        for name, value in tags.items():
            if value is None and name in there:
                self.client.delete_experiment_tag(self.experiment, name)
            elif value is not None and there.get(name) != value:
                self.client.set_experiment_tag(self.experiment, name, value)

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
        shown = self.shown.get(row.id)
        if shown is None:
            shown = self.shown[row.id] = self._create(row)
        elif shown.latest and any(shown.tags.get(name) != row.tags[name] for name in row.fixed):
            shown = self._replace(row, shown)
        self._complete(row, shown)

    def log_folder(self, place: RunId, folder: Path, name: str) -> None:
        """Copies a folder to the artifacts of a row, under a name."""
        self.client.log_artifacts(self.shown[place].id, str(folder), name)

    def log_file(self, place: RunId, file: Path) -> None:
        """Copies a file to the artifacts of a row; an earlier one of its name is replaced."""
        self.client.log_artifact(self.shown[place].id, str(file))

    def delete(self, artifacts: Path) -> None:
        """Deletes every row of the study; files of theirs go where they lie in the home's own folder of artifacts."""
        for shown in [*self.shown.values(), *self.doubles]:
            where = self.client.get_run(shown.id).info.artifact_uri
            self.client.delete_run(shown.id)
            folder = Path(where.removeprefix("file://")).parent
            if folder.is_relative_to(artifacts.absolute()) and folder.name == shown.id:
                shutil.rmtree(folder, ignore_errors=True)
        self.shown.clear()
        self.doubles.clear()

    def _create(self, row: Row) -> TrackedRun:
        tags = {name: value for name, value in self._tags(row).items() if name not in row.fixed or not row.points}
        tags |= _origin() | {HOME: self.home}
        run = self.client.create_run(self.experiment, round(row.begun * 1000), tags, row.name)
        return TrackedRun.of(run)

    def _replace(self, row: Row, old: TrackedRun) -> TrackedRun:
        new = self.shown[row.id] = self._create(row)
        for child in self.shown.values():
            if child.tags.get(PARENT) == old.id:
                self.client.set_tag(child.id, PARENT, new.id)
                child.tags[PARENT] = new.id
        if not self._is_deleted(old):
            self.client.delete_run(old.id)
        return new

    def _is_deleted(self, shown: TrackedRun) -> bool:
        """Whether a run is in MLflow's trash, or gone for good."""
        try:
            return bool(self.client.get_run(shown.id).info.lifecycle_stage == "deleted")
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST":
                raise
            return True

    def _tags(self, row: Row) -> dict[str, str]:
        return row.tags | ({PARENT: self.shown[row.parent].id} if row.parent else {})

    def _complete(self, row: Row, shown: TrackedRun) -> None:
        """Sends what is missing, each thing once."""
        params = {name: value for name, value in row.params.items() if name not in shown.params}
        if params:
            self._introduce(row, shown)
        tags = {name: value for name, value in self._tags(row).items() if shown.tags.get(name) != value}
        points = _changes(row, shown) if row.only_changes else [one for one in row.points if one.step > shown.step]
        if params or tags or points:
            self._log(shown, points, params, tags)
        for name in PASSING & shown.tags.keys() - row.tags.keys():
            self._delete_tag(shown, name)
        self._settle(row, shown)

    def _delete_tag(self, shown: TrackedRun, name: str) -> None:
        """Deletes a tag, also where an earlier call did so and its answer was lost."""
        try:
            self.client.delete_tag(shown.id, name)
        except MlflowException as error:
            if error.error_code != "RESOURCE_DOES_NOT_EXIST" or self._is_deleted(shown):
                raise
        del shown.tags[name]

    def _introduce(self, row: Row, shown: TrackedRun) -> None:
        """The files and the data set of a new run; params come after, as the sign that these are there."""
        for name, text in row.files.items():
            self.client.log_text(shown.id, text, name)
        if row.recipe is not None:
            self.client.log_inputs(shown.id, [_data(row.recipe)])

    def _log(self, shown: TrackedRun, points: list[Point], params: dict[str, str], tags: dict[str, str]) -> None:
        """Params first, tags last: a tag that names the points is there only where the points are."""
        chunks = list(_chunks(points)) or [[]]
        for number, chunk in enumerate(chunks, start=1):
            self.client.log_batch(
                shown.id,
                [Metric(k, v, round(p.time * 1000), p.step) for p in chunk for k, v in p.values.items()],
                [Param(name, value) for name, value in params.items()] if number == 1 else [],
                [RunTag(name, value) for name, value in tags.items()] if number == len(chunks) else [],
            )
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
        shown.status = row.status


def make_database(home: Home) -> None:
    """Makes the default database where there is none: under another name, which is changed once it is complete.

    A driver killed while MLflow makes its tables would leave a file that MLflow refuses for ever. Cost: 2-6 s, once.
    """
    path = Path(home.tracking.removeprefix("sqlite:///"))
    if path.exists():
        return
    draft = path.with_name(path.name + ".tmp")
    for left in path.parent.glob(f"{draft.name}*"):
        left.unlink()
    SqlAlchemyStore(f"sqlite:///{draft}", home.artifacts.absolute().as_uri()).engine.dispose()
    draft.replace(path)


def look_up(home: Home, edition: Edition, tracking: str | None = None) -> Store | None:
    """A study's runs as MLflow has them; None where it was never shown. Writes nothing.

    Raises: MlflowError where the database is damaged.
    """
    if tracking is None and not Path(home.tracking.removeprefix("sqlite:///")).exists():
        return None
    if home.id is None:
        return None
    try:
        store = Store(tracking or home.tracking, home.id, edition.id, edition.study.family)
        return store if store.find() and STUDY in store.shown else None
    except DatabaseError as error:
        damaged = any(word in str(error.orig) for word in ("malformed", "not a database"))
        do = ": move it away, and run each of its studies again, which sends it anew" if damaged else ""
        name = without_secrets(tracking or home.tracking)
        raise MlflowError(f"MLflow's database {name} cannot be read ({error.orig}){do}") from None


def _origin() -> dict[str, str]:
    """Who ran a study with which commit of this project, as MLflow shows it on a run's page."""
    found = {"mlflow.source.name": "locus", "mlflow.source.type": "LOCAL"}
    with suppress(OSError, KeyError):  # a container's user may have no name
        found["mlflow.user"] = getuser()
    commit = os.environ.get("LOCUS_COMMIT", "")
    return found | ({"mlflow.source.git.commit": commit} if commit else {})


def _changes(row: Row, shown: TrackedRun) -> list[Point]:
    """A row's points with only the values that differ from the last ones sent.

    Steps never fall: MLflow takes the value of the greatest step for the last one.
    """
    news = []
    for one in row.points:
        values = {name: value for name, value in one.values.items() if shown.latest.get(name) != value}
        news.append(Point(max(one.step, shown.step), one.time, values))
    return [one for one in news if one.values]


def _chunks(points: Iterable[Point]) -> Iterator[list[Point]]:
    chunk: list[Point] = []
    for point in points:
        if chunk and sum(len(other.values) for other in [*chunk, point]) > MOST_METRICS:
            yield chunk
            chunk = []
        chunk.append(point)
    if chunk:
        yield chunk


def _data(recipe: Recipe) -> Any:
    """The data set as MLflow shows it: its name, a digest, and its spec."""
    data = recipe.data
    name = "/".join(filter(None, (data.kind, getattr(data, "task", ""))))
    source = json.dumps(without_sources(data.plain()), separators=(",", ":"))
    dataset = Dataset(name, digest([data.identity(), data.fingerprint]), "local", source)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", "training")])
