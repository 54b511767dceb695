"""The registered model on a tracking server, or in a SQLite file."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, RunTag
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.registry import tags as tag_names
from ulr.registry.connection import TRACKING_URI, connected, create_database
from ulr.registry.runs import write_files, write_model, write_record
from ulr.registry.stored_model import EXPECTED, Warn, ignore, read_stored_model, sha256_of
from ulr.registry.submission import Submission
from ulr.warehouse.stage import fingerprint

CHALLENGER, CHAMPION = "challenger", "champion"
DATABASE = "mlflow.db"
_MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")


@dataclass(frozen=True)
class RegisteredVersion:
    """A version of the registered model. run_id: empty if it was registered without a run."""

    version: int
    run_id: str
    tags: Mapping[str, str]
    new: bool = False


class Registry:
    """One registered model on one tracking server, or in one SQLite file."""

    def __init__(
        self, uri: str, *, experiment: str, name: str, retries: int = 5, backoff: int = 2
    ) -> None:
        """uri: any URI that MLflow takes, or the path of a folder for a SQLite file."""
        self.folder = None if "://" in uri else Path(uri).absolute()
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.uri = f"sqlite:///{self.folder / DATABASE}" if self.folder else uri
        self.experiment, self.name = experiment, name
        self._experiment_id: str | None = None
        # MLflow retries every request itself, with exponential back-off, and reads these.
        os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = str(retries)
        os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"] = str(backoff)
        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)

    @property
    def client(self) -> MlflowClient:
        """MLflow's client of this server."""
        self._ensure_database()
        return MlflowClient(self.uri)

    def register(self, submission: Submission) -> RegisteredVersion:
        """Log the run and register its model, unless that has been done."""
        known = self.find(submission.fingerprint)
        if known:
            return known
        with self._connected():
            self._delete_runs(tag_names.FINGERPRINT, submission.fingerprint)
            tags = submission.tags | {tag_names.MODEL_SHA256: sha256_of(submission.model)}
            model_id = self._log_run(submission, tags)
            return _registered(self._create_version(model_id, tags), new=True)

    def log_comparison(
        self, name: str, submissions: Sequence[Submission], rows: Sequence[Mapping[str, Any]]
    ) -> str:
        """Log one run with the comparison's rows and a child per training; return its id.

        Nothing is registered. A comparison that was logged completely is not logged again.
        """
        key = fingerprint([[s.fingerprint for s in submissions], list(rows)])
        with self._connected():
            experiment_id = self.experiment_id()
            query = f"tags.`{tag_names.COMPARISON}` = '{key}' and attributes.status = 'FINISHED'"
            complete = self.client.search_runs([experiment_id], query)
            if complete:
                return complete[0].info.run_id
            self._delete_runs(tag_names.COMPARISON, key)
            with mlflow.start_run(
                experiment_id=experiment_id, run_name=name, tags={tag_names.COMPARISON: key}
            ) as parent:
                for submission in submissions:
                    self._delete_runs(tag_names.LIVE, submission.fingerprint)
                    tags = _compared(submission.tags)
                    tags[tag_names.MODEL_SHA256] = sha256_of(submission.model)
                    self._log_run(submission, tags, nested=True)
                table = {column: [row[column] for row in rows] for column in rows[0]}
                self.client.log_table(parent.info.run_id, table, "comparison.json")
            return parent.info.run_id

    def find(self, fingerprint: str) -> RegisteredVersion | None:
        """Return the version of a training, or None if it is not registered."""
        with self._connected():
            query = f"name='{self.name}' and tags.`{tag_names.FINGERPRINT}`='{fingerprint}'"
            versions = self.client.search_model_versions(query, max_results=1)
            return _registered(versions[0]) if versions else None

    def version(self, number: int) -> RegisteredVersion:
        """Return a version by its number."""
        with self._connected():
            return _registered(self.client.get_model_version(self.name, str(number)))

    def versions(self) -> list[RegisteredVersion]:
        """Return every version, newest first."""
        with self._connected():
            versions = self.client.search_model_versions(f"name='{self.name}'")
            return [_registered(v) for v in sorted(versions, key=lambda v: -int(v.version))]

    def version_with_alias(self, alias: str) -> RegisteredVersion | None:
        """Return the version with an alias, or None."""
        with self._connected():
            try:
                return _registered(self.client.get_model_version_by_alias(self.name, alias))
            except MlflowException as error:
                if error.error_code in _MISSING:
                    return None
                raise

    def set_alias(self, alias: str, version: int) -> None:
        """Move the alias to a version."""
        with self._connected():
            self.client.set_registered_model_alias(self.name, alias, str(version))

    def tag_version(
        self,
        version: RegisteredVersion,
        tags: Mapping[str, str],
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Write tags on a version and on its run, and metrics on the run."""
        with self._connected():
            client, now = self.client, int(time.time() * 1000)
            for key, value in tags.items():
                client.set_model_version_tag(self.name, str(version.version), key, value)
            if version.run_id:
                finite = {n: v for n, v in (metrics or {}).items() if math.isfinite(v)}
                client.log_batch(
                    version.run_id,
                    metrics=[Metric(name, value, now, 0) for name, value in finite.items()],
                    tags=[RunTag(key, value) for key, value in tags.items()],
                )

    def attach_report(self, run_id: str, page: str) -> None:
        """Store the report's page as an artifact of a run; replace an earlier one."""
        with self._connected():
            self.client.log_text(run_id, page, "report.html")

    def model_text(self, uri: str, warn: Warn = ignore) -> str:
        """Return the LightGBM text of a model by URI, such as models:/NAME@champion.

        warn: receives a line if the version has no hash to compare the text with.
        """
        with self._connected():
            try:
                return read_stored_model(self.client, uri, warn)
            except MlflowException as error:
                if error.error_code in _MISSING:
                    raise UserError(f"no model {uri} at {self.uri}; expected {EXPECTED}") from None
                raise

    def experiment_id(self) -> str:
        """Return the id of the experiment with all runs; create it if it is missing."""
        if self._experiment_id is None:
            self._experiment_id = self._find_experiment()
        return self._experiment_id

    def _find_experiment(self) -> str:
        client = self.client
        if experiment := client.get_experiment_by_name(self.experiment):
            return experiment.experiment_id
        artifacts = (self.folder / "artifacts").as_uri() if self.folder else None
        try:
            return client.create_experiment(self.experiment, artifact_location=artifacts)
        except MlflowException:
            # Another process may have created it in the meantime.
            if experiment := client.get_experiment_by_name(self.experiment):
                return experiment.experiment_id
            raise

    def _delete_runs(self, tag: str, value: str) -> None:
        """Delete runs that an interrupted attempt has left."""
        for run in self.client.search_runs([self.experiment_id()], f"tags.`{tag}` = '{value}'"):
            self.client.delete_run(run.info.run_id)

    def _create_version(self, model_id: str, tags: Mapping[str, str]) -> ModelVersion:
        """Register a logged model; the registered model is created if it is missing.

        Version and tags are one request, so that no version lacks its fingerprint.
        """
        client = self.client
        create = partial(
            client.create_model_version, self.name, f"models:/{model_id}", tags=dict(tags),
            model_id=model_id,
        )  # fmt: skip
        try:
            version = create()
        except MlflowException as error:
            if error.error_code not in _MISSING:
                raise
            with contextlib.suppress(MlflowException):  # another process may have created it
                client.create_registered_model(self.name)
            version = create()
        # The tag that MLflow's `register_model` sets: its page of the model links to the version.
        link = json.dumps([{"name": self.name, "version": version.version}])
        client.set_logged_model_tags(model_id, {MLFLOW_MODEL_VERSIONS: link})
        return version

    def _log_run(
        self, submission: Submission, tags: Mapping[str, str], *, nested: bool = False
    ) -> str:
        """Log a run with the record and the model of a training; return the model's id."""
        with (
            tempfile.TemporaryDirectory() as folder,
            mlflow.start_run(
                experiment_id=self.experiment_id(),
                run_name=submission.name,
                tags=dict(tags),
                nested=nested,
            ) as run,
        ):
            model_id = write_model(submission, write_files(submission, Path(folder)), tags)
            write_record(self.client, run.info.run_id, model_id, submission, Path(folder))
            return model_id

    def _connected(self) -> AbstractContextManager[None]:
        self._ensure_database()
        return connected(self.uri)

    def _ensure_database(self) -> None:
        if self.folder:
            create_database(self.folder / DATABASE)


def registry_of(settings: Settings) -> Registry:
    """Return the registry of the settings; MLFLOW_TRACKING_URI replaces mlflow.local_path."""
    section = settings.mlflow
    return Registry(
        section.tracking_uri or os.environ.get(TRACKING_URI) or section.local_path,
        experiment=section.experiment,
        name=section.registered_model,
        retries=section.retries,
        backoff=section.backoff,
    )


def _compared(tags: Mapping[str, str]) -> dict[str, str]:
    return {tag_names.COMPARED + key.removeprefix("ulr."): value for key, value in tags.items()}


def _registered(version: ModelVersion, *, new: bool = False) -> RegisteredVersion:
    return RegisteredVersion(int(version.version), version.run_id or "", dict(version.tags), new)
