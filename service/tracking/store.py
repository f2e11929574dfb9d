"""Finds the MLflow runs of one study by their tags, and writes to them.

Runs have the tags `locus.home`, `locus.study`, `locus.level`, `locus.number` and `locus.seed`, so a second call finds
the same runs, and never those of another home on a shared server. Only the parts of a row that MLflow lacks are sent. A
run that shows another training than its row (another key or code) is deleted, and the row is written as a new run. Tags
that a person set stay, on the new run too.

An experiment that locus made has the tag `locus.note`. In other experiments, locus changes only what it added itself.
"""

from __future__ import annotations

import json
import math
import os
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from getpass import getuser
from pathlib import Path
from typing import Any
from uuid import uuid4

from mlflow import entities
from mlflow.exceptions import MlflowException
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.tracking.dbmodels.models import SqlLatestMetric, SqlMetric, SqlParam, SqlRun, SqlTag
from mlflow.store.tracking.sqlalchemy_store import SqlAlchemyStore
from mlflow.tracking import MlflowClient
from mlflow.utils.mlflow_tags import MLFLOW_RUN_NAME, MLFLOW_USER
from mlflow.utils.uri import append_to_uri_path
from mlflow.utils.validation import _validate_batch_log_data
from sqlalchemy import insert
from sqlalchemy.exc import SQLAlchemyError

from search_spaces.study import Edition, Trial
from search_spaces.words import without_sources
from service.storage.home import Home, default_experiment, remove_member
from service.tracking.databases import AGAIN, MlflowError, check_file, file_of, in_a_sentence, is_there
from service.tracking.rows import AGAIN as TRAINED_AGAIN
from service.tracking.rows import CODE, KEY, STUDY, Point, Row, RunId
from trainables.recipe import Recipe
from trainables.spec import digest
from trainables.whole_files import rename_durably

NOTE = "mlflow.note.content"
"""The tag of an experiment, or of a run, that holds its description."""
WRITTEN = "locus.note"
"""The tag with the digest of the description that locus wrote; while an experiment's changes, with those of both."""
HOME = "locus.home"
"""The tag with the id of the home whose study a run shows; on a shared server, other homes may run the same study."""
OURS = ("locus.", "mlflow.")
"""The beginnings of the names of tags that no person sets."""
IDENTITY = (KEY, CODE, TRAINED_AGAIN)
"""The tags that identify a training. A row that differs in one is written as a new run, as MLflow deletes no point."""
MOST_METRICS = 900
"""The most metrics in one call; MLflow accepts 1,000 entities."""
LARGEST = 1.7976931348623157e308
"""The number that MLflow stores in place of infinity."""


@dataclass
class Shown:
    """The MLflow run of a row, as MLflow has it.

    `step` is the last step with points (-1 without any), `latest` the last value of each metric, `files` the URI of
    the run's files.
    """

    id: str
    status: str
    params: dict[str, str]
    tags: dict[str, str]
    latest: dict[str, float]
    step: int
    experiment: str
    files: str

    @classmethod
    def of(cls, run: Any) -> Shown:
        """Returns the run that an entity of MLflow describes."""
        info, data = run.info, run.data
        step = max((metric.step for metric in data._metric_objs), default=-1)
        return cls(
            info.run_id, info.status, data.params, data.tags, data.metrics, step, info.experiment_id, info.artifact_uri
        )

    def news(self, row: Row) -> list[Point]:
        """Returns the points of a row that were not sent yet, and those of its last numbers that have changed."""
        points = [point for point in row.points if point.step > self.step]
        values = {}
        for name, value in row.values.values.items() if row.values else ():
            latest, kept = self.latest.get(name), math.copysign(LARGEST, value) if math.isinf(value) else value
            if latest not in (kept, value) and not (latest is not None and math.isnan(latest) and math.isnan(value)):
                values[name] = value
        if row.values and values:
            points.append(Point(max(row.values.step, self.step), row.values.time, values))
        return points

    def add(self, points: Iterable[Point]) -> None:
        """Records that points were sent."""
        for point in points:
            self.step = max(self.step, point.step)
            self.latest |= point.values


class Store:
    """The MLflow runs of one study of one home, in one experiment of an MLflow store.

    `home` is the id of the home, `name` the name of the experiment. `shown` holds the run of each row; `others` are the
    study's runs that show no row, or one that is shown already. `written` counts the calls that changed something.
    Cost: two calls to find the runs; then none if nothing differs.
    """

    def __init__(self, uri: str, home: str, study: str, name: str) -> None:
        self.client = MlflowClient(tracking_uri=uri)
        self.uri, self.home, self.study, self.name = uri, home, study, name
        self.written = 0
        self.place: entities.Experiment | None = None
        self.shown: dict[RunId, Shown] = {}
        self.others: list[Shown] = []

    @property
    def experiment(self) -> str:
        """The experiment's id."""
        assert self.place is not None
        return str(self.place.experiment_id)

    @property
    def database(self) -> SqlAlchemyStore | None:
        """MLflow's own store where it is a database and no server."""
        store = self.client._tracking_client.store
        return store if isinstance(store, SqlAlchemyStore) else None

    def find(self) -> bool:
        """Reads the experiment and the study's runs from MLflow. Returns False if it shows nothing of this study."""
        self.shown, self.others = {}, []
        experiment = self.client.get_experiment_by_name(self.name)
        self.place = experiment if experiment is not None and experiment.lifecycle_stage == "active" else None
        for run in map(Shown.of, self._search()) if self.place else ():
            level, seed = run.tags.get("locus.level"), run.tags.get("locus.seed")
            row: RunId | None = None
            if level is not None and (seed is None or seed.isdecimal()):  # else its tags are not those of locus
                row = level, run.tags.get("locus.number", ""), None if seed is None else int(seed)
            if row is None or self.shown.setdefault(row, run) is not run:
                self.others.append(run)
        return bool(self.shown)

    def _search(self) -> Iterator[Any]:
        of_study, token = f"tags.`{HOME}` = '{self.home}' AND tags.`locus.study` = '{self.study}'", None
        while True:
            page = self.client.search_runs([self.experiment], of_study, max_results=1000, page_token=token)
            yield from page
            token = page.token
            if not token:
                return

    def make(self, artifacts: Path | None, *, is_own: bool) -> None:
        """Does what `find` does, and creates the experiment if there is none.

        `artifacts` is the home's folder for files if MLflow is a database, else None. `is_own` says whether the
        database is the home's own. MLflow stores absolute paths: if such a home was moved or copied, the study is
        written again, with its files in `artifacts`.
        Raises: MlflowError if the home was copied and its database is a link, which the first home uses, too; or if
        the experiment is in MLflow's trash and locus did not make it.
        """
        self.find()
        folder, file = artifacts.absolute().as_uri() if artifacts else None, file_of(self.uri)
        if is_own and self.place and WRITTEN in self.place.tags and self.place.artifact_location != folder:
            if file and file.resolve().parent != file.parent.resolve():
                raise MlflowError(
                    f"MLflow's database sqlite:///{file} must keep its files in {artifacts}, got "
                    f"{self.place.artifact_location}, for the home was moved or copied: {AGAIN}"
                )
            self.client.rename_experiment(self.experiment, f"{self.name} (moved, {self.experiment})")
            self.client.delete_experiment(self.experiment)
            self.place, self.shown = None, {}
        if self.place is None:
            tags = {"mlflow.experimentKind": "custom_model_development", WRITTEN: digest("")}
            try:
                self.client.create_experiment(self.name, artifact_location=folder, tags=tags)
            except MlflowException as error:
                if error.error_code != "RESOURCE_ALREADY_EXISTS":
                    raise
                experiment = self.client.get_experiment_by_name(self.name)
                if experiment is not None and experiment.lifecycle_stage != "active":  # else another driver was quicker
                    if WRITTEN not in experiment.tags:
                        raise MlflowError(
                            f"MLflow's experiment {self.name!r} must be one that is not in its trash, for locus did "
                            "not make it; restore it there, or give --experiment another name"
                        ) from None
                    self.client.restore_experiment(experiment.experiment_id)
            self.find()
        while self.others:
            self.client.delete_run(self.others.pop().id)

    def put(self, rows: Sequence[Row]) -> None:
        """Writes rows to MLflow. The parent of a row must come before it, or be in MLflow already.

        Cost: in a database one transaction for all new rows, as MLflow's calls take 0.1 s per run; at a server three
        requests per new row.
        """
        old: dict[RunId, Shown] = {}
        for row in rows:
            run = self.shown.get(row.id)
            if run and not (
                all(run.tags.get(name, "") == row.tags.get(name, "") for name in IDENTITY)
                and all(row.params.get(name, text) == text for name, text in run.params.items())
            ):  # it shows another training
                old[row.id] = self.shown.pop(row.id)

        drafts = []
        for row in rows if self.database is not None else ():
            if row.id not in self.shown:
                assert self.place is not None
                id, tags = uuid4().hex, self._new_tags(row, old.get(row.id)) | {MLFLOW_RUN_NAME: row.name}
                files = append_to_uri_path(self.place.artifact_location, id, SqlAlchemyStore.ARTIFACTS_FOLDER_NAME)
                run = self.shown[row.id] = Shown(id, row.status, {**row.params}, tags, {}, -1, self.experiment, files)
                points = run.news(row)
                run.add(points)
                drafts.append((run, row, points))
        if drafts and self.database is not None:
            insert_runs(self.database, self.experiment, drafts)
            self.written += 1

        for row in rows:
            if row.id not in self.shown:
                tags = self._new_tags(row, old.get(row.id))
                created = self.client.create_run(self.experiment, round(row.begun * 1000), tags, row.name)
                self.shown[row.id] = Shown.of(created)
                self.written += 1
            self._complete(row, self.shown[row.id])
        for run in old.values():
            self.client.delete_run(run.id)

    def _new_tags(self, row: Row, old: Shown | None) -> dict[str, str]:
        """Returns the tags of a new run, including those that a person set on the run that it replaces."""
        persons = {name: text for name, text in (old.tags if old else {}).items() if not name.startswith(OURS)}
        tags = persons | self._tags(row) | {"mlflow.source.name": "locus", "mlflow.source.type": "LOCAL"}
        with suppress(OSError, KeyError):  # a container's user may have no name
            tags[MLFLOW_USER] = getuser()
        tags |= {"mlflow.source.git.commit": os.environ.get("LOCUS_COMMIT", ""), HOME: self.home}
        return {name: text for name, text in tags.items() if text}

    def _tags(self, row: Row) -> dict[str, str]:
        """Returns a row's tags, with those for its parent and for the digest of its description."""
        tags = row.tags | ({"mlflow.parentRunId": self.shown[row.parent].id} if row.parent else {})
        return tags | ({WRITTEN: digest(tags[NOTE])} if NOTE in tags else {})

    def _complete(self, row: Row, shown: Shown) -> None:
        """Sends the params, tags, points and status of a row that MLflow lacks. A description by a person stays."""
        params = {name: text for name, text in row.params.items() if name not in shown.params}
        tags = {name: text for name, text in self._tags(row).items() if shown.tags.get(name, "") != text}
        if WRITTEN in shown.tags and digest(shown.tags.get(NOTE, "")) != shown.tags[WRITTEN]:
            tags = {name: text for name, text in tags.items() if name not in (NOTE, WRITTEN)}
        chunks: list[list[Point]] = []
        for point in shown.news(row):
            if not chunks or sum(len(other.values) for other in [*chunks[-1], point]) > MOST_METRICS:
                chunks.append([])
            chunks[-1].append(point)
        if not chunks and (params or tags):
            chunks.append([])
        for number, chunk in enumerate(chunks, start=1):
            self.client.log_batch(
                shown.id,
                [entities.Metric(k, v, round(p.time * 1000), p.step) for p in chunk for k, v in p.values.items()],
                [entities.Param(name, text) for name, text in params.items()] if number == 1 else [],
                [entities.RunTag(name, text) for name, text in tags.items()] if number == len(chunks) else [],
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
        """Deletes the study's runs that show none of these rows, and those made twice because a reply was lost."""
        self.shown = {row: run for row, run in self.shown.items() if row in rows}
        kept = {run.id for run in self.shown.values()}
        for run in list(self._search()):
            if run.info.run_id not in kept:
                self.client.delete_run(run.info.run_id)

    def delete(self, artifacts: Path | None) -> None:
        """Deletes every MLflow run of the study, and its files in `artifacts`, the home's own folder."""
        for shown in [*self.shown.values(), *self.others]:
            self.client.delete_run(shown.id)
            if artifacts is not None and re.fullmatch("[0-9a-f]{32}", shown.id):
                with suppress(OSError):  # what stays is of no row any more
                    remove_member(artifacts, shown.id)
        self.shown, self.others = {}, []

    def send_files(self, trials: list[Trial], report: Path | None) -> None:
        """Stores the study's report, the recipes of its trials by label, and its data sets at the study's own run."""
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


def _data_sets(recipes: Iterable[Recipe]) -> list[entities.DatasetInput]:
    """Returns MLflow's entity of each data set, once: its name, a digest, and its spec."""
    sets: dict[tuple[str, str], entities.DatasetInput] = {}
    for data in (recipe.data for recipe in recipes):
        name = "/".join(filter(None, (data.kind, getattr(data, "task", ""))))
        identity = name, digest([data.identity(), data.fingerprint])
        source = json.dumps(without_sources(data.plain()), separators=(",", ":"))
        tags = [entities.InputTag("mlflow.data.context", "training")]
        sets[identity] = entities.DatasetInput(entities.Dataset(*identity, "local", source), tags)
    return [*sets.values()]


def insert_runs(store: SqlAlchemyStore, experiment: str, new: Iterable[tuple[Shown, Row, Sequence[Point]]]) -> None:
    """Writes new rows to MLflow's database in one transaction, as MLflow's own calls would.

    MLflow's own functions need eight transactions to write a run. `experiment` is the id of the experiment. `new` holds
    for each row the MLflow run to write, the row, and its points.
    Raises: MlflowException if MLflow's calls would refuse a row, or the database cannot be written.
    """
    lines: dict[type, list[dict[str, Any]]] = {}
    for run, row, points in new:
        for table, table_lines in _tables(store, run, row, points).items():
            lines.setdefault(table, []).extend(table_lines)
    with store.ManagedSessionMaker(read_only=False) as session:
        store._check_experiment_is_active(store._get_experiment(session, experiment, entities.ViewType.ALL))
        for table, table_lines in lines.items():
            if table_lines:
                session.execute(insert(table), table_lines)


def _tables(store: SqlAlchemyStore, run: Shown, row: Row, points: Sequence[Point]) -> dict[type, list[dict[str, Any]]]:
    """Returns the lines to insert for one new run, by the table of MLflow's database."""
    measured, params, tags = _validate_batch_log_data(
        [entities.Metric(k, v, round(p.time * 1000), p.step) for p in points for k, v in p.values.items()],
        [entities.Param(name, text) for name, text in run.params.items()],
        [entities.RunTag(name, text) for name, text in run.tags.items()],
    )
    metrics = []
    for metric in measured:
        is_nan, value = store.sanitize_metric_value(metric.value)
        line = {"run_uuid": run.id, "key": metric.key, "timestamp": metric.timestamp, "step": metric.step}
        metrics.append(line | {"value": value, "is_nan": is_nan})
    latest = {metric["key"]: metric for metric in metrics}  # the points lie in the order of their steps
    run_line = {
        "run_uuid": run.id,
        "name": row.name,
        "source_type": entities.SourceType.to_string(entities.SourceType.UNKNOWN),
        "source_name": "",
        "entry_point_name": "",
        "user_id": run.tags.get(MLFLOW_USER, "unknown"),
        "status": row.status,
        "start_time": round(row.begun * 1000),
        "end_time": None if row.status in ("RUNNING", "SCHEDULED") else round(row.last * 1000),
        "source_version": "",
        "lifecycle_stage": entities.LifecycleStage.ACTIVE,
        "artifact_uri": run.files,
        "experiment_id": int(run.experiment),
    }
    return {
        SqlRun: [run_line],
        SqlParam: [{"run_uuid": run.id, "key": param.key, "value": param.value} for param in params],
        SqlTag: [{"run_uuid": run.id, "key": tag.key, "value": tag.value} for tag in tags],
        SqlMetric: metrics,
        SqlLatestMetric: [*latest.values()],
    }


def make_database(home: Home) -> None:
    """Creates the home's default database if there is none, under another name until it is complete.

    A driver killed while MLflow creates tables would else leave a file that MLflow always refuses. Cost: 2-6 s, once.
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
    """Returns the name of the experiment that shows a study, or that will show it by default."""
    file = home.study(edition.id).experiment
    return file.read_text(encoding="utf-8") if file.exists() else default_experiment(edition.study.name)


def look_up(home: Home, edition: Edition, tracking: str | None = None) -> Store | None:
    """Returns the store with a study's runs as MLflow has them; None if MLflow has none. It writes nothing.

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
