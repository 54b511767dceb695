"""The registered model on a tracking server, or in a SQLite file."""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import tempfile
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.entities import Metric, RunTag
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.utils.mlflow_tags import MLFLOW_MODEL_VERSIONS

from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.registry import tags as tag_names
from ulr.registry.connection import TRACKING_URI, connected, create_database, is_unavailable
from ulr.registry.duplicates import (
    MISSING,
    all_versions,
    delete_unregistered,
    keep_lowest,
    versions_of,
)
from ulr.registry.logged_model import write_model
from ulr.registry.runs import run_params, write_files, write_record
from ulr.registry.stored_model import EXPECTED, Warn, ignore, read_stored_model, sha256_of
from ulr.registry.submission import Submission
from ulr.warehouse.durable import sync_parents, sync_tree

CHALLENGER, CHAMPION = "challenger", "champion"
ANCHOR = "anchor"  # the champion of some days ago, among the models of an evaluation
DATABASE = "mlflow.db"


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
        self,
        uri: str,
        *,
        experiment: str,
        name: str,
        registry_uri: str | None = None,
        retries: int = 5,
        backoff: int = 2,
    ) -> None:
        """uri: any URI that MLflow takes, or the path of a folder for a SQLite file.

        registry_uri: of the model registry, if it is not on the tracking server.
        """
        self.folder = None if "://" in uri else Path(uri).absolute()
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.uri = f"sqlite:///{self.folder / DATABASE}" if self.folder else uri
        self.experiment, self.name, self.registry_uri = experiment, name, registry_uri
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
        return MlflowClient(self.uri, self.registry_uri)

    def register(self, submission: Submission) -> RegisteredVersion:
        """Log the run and register its model, unless that has been done.

        A training has one version afterwards, also if answers of the server were lost.
        """
        with self.connected():
            client, run_id = self.client, None
            versions = versions_of(client, self.name, submission.fingerprint)
            if not versions:
                tags = submission.tags | {tag_names.MODEL_SHA256: sha256_of(submission.model)}
                run_id, model_id = self.log_run(submission, tags)
                self._make_durable(run_id, f"models/{model_id}")
                created = self._create_version(model_id, tags)
                versions = versions_of(client, self.name, submission.fingerprint) or [created]
            version = keep_lowest(client, self.name, versions)
            delete_unregistered(client, self.experiment_id(), version)
            if version.run_id == run_id:
                # The tag that MLflow's `register_model` sets: its page of the model has a link.
                link = json.dumps([{"name": self.name, "version": str(version.version)}])
                client.set_logged_model_tags(model_id, {MLFLOW_MODEL_VERSIONS: link})
            return _registered(version, new=version.run_id == run_id)

    def _make_durable(self, *folders: str) -> None:
        """Flush artifacts of the embedded registry to the disk before a version refers to them."""
        if self.folder:
            artifacts = self.folder / "artifacts"
            for folder in folders:
                sync_tree(artifacts / folder)
                sync_parents(artifacts / folder, self.folder)

    def find(self, fingerprint: str) -> RegisteredVersion | None:
        """Return the version of a training, or None if it is not registered."""
        with self.connected():
            versions = versions_of(self.client, self.name, fingerprint)
            return _registered(versions[0]) if versions else None

    def version(self, number: int) -> RegisteredVersion:
        """Return a version by its number."""
        with self.connected():
            return _registered(self.client.get_model_version(self.name, str(number)))

    def versions(self) -> list[RegisteredVersion]:
        """Return every version, newest first."""
        with self.connected():
            return [_registered(v) for v in reversed(all_versions(self.client, self.name))]

    def version_with_alias(self, alias: str) -> RegisteredVersion | None:
        """Return the version with an alias, or None."""
        with self.connected():
            try:
                return _registered(self.client.get_model_version_by_alias(self.name, alias))
            except MlflowException as error:
                if error.error_code in MISSING or self._is_hidden(error):
                    return None
                raise

    def _is_hidden(self, error: MlflowException) -> bool:
        """Return whether a server with users refused the request because there is no model yet."""
        if error.error_code != "PERMISSION_DENIED":
            return False
        return not self.client.search_registered_models(f"name = '{self.name}'", 1)

    def set_alias(self, alias: str, version: int) -> None:
        """Move the alias to a version."""
        with self.connected():
            self.client.set_registered_model_alias(self.name, alias, str(version))

    def tag_version(
        self,
        version: RegisteredVersion,
        tags: Mapping[str, str],
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Write tags on a version and on its run, and metrics on the run."""
        with self.connected():
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
        with self.connected():
            self.client.log_text(run_id, page, "report.html")

    def model_text(self, uri: str, warn: Warn = ignore) -> str:
        """Return the LightGBM text of a model by URI, such as models:/NAME@champion.

        warn: receives a line if the version has no hash to compare the text with.
        """
        with self.connected():
            try:
                return read_stored_model(self.client, uri, warn)
            except MlflowException as error:
                if error.error_code in MISSING:
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
            return create()
        except MlflowException as error:
            if error.error_code not in MISSING and not self._is_hidden(error):
                raise
            with contextlib.suppress(MlflowException):  # another process may have created it
                client.create_registered_model(self.name)
            return create()

    def log_run(
        self, submission: Submission, tags: Mapping[str, str], *, nested: bool = False
    ) -> tuple[str, str]:
        """Log a run with the record and the model of a training; return the ids of both.

        A request that MLflow repeats after a lost answer can be refused because the first one was
        processed. Therefore a refused run is logged a second time; the caller deletes the first.
        """
        try:
            return self._log_run(submission, tags, nested)
        except MlflowException as error:
            if is_unavailable(error):
                raise
            return self._log_run(submission, tags, nested)

    def _log_run(
        self, submission: Submission, tags: Mapping[str, str], nested: bool
    ) -> tuple[str, str]:
        with (
            tempfile.TemporaryDirectory() as folder,
            tempfile.TemporaryDirectory() as scratch,
            mlflow.start_run(
                experiment_id=self.experiment_id(),
                run_name=submission.name,
                tags=dict(tags),
                nested=nested,
            ) as run,
        ):
            files = write_files(submission, Path(folder))
            model_id = write_model(submission, files, Path(scratch), run_params(submission), tags)
            write_record(self.client, run.info.run_id, model_id, submission, Path(folder))
            return run.info.run_id, model_id

    def connected(self) -> AbstractContextManager[None]:
        """Point MLflow at this server for a block; raise RegistryUnavailable if it is down."""
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
        registry_uri=section.registry_uri,
        retries=section.retries,
        backoff=section.backoff,
    )


def _registered(version: ModelVersion, *, new: bool = False) -> RegisteredVersion:
    return RegisteredVersion(int(version.version), version.run_id or "", dict(version.tags), new)
