"""The registered model on a tracking server, or in a SQLite file."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import tempfile
import threading
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mlflow
import mlflow.lightgbm
from mlflow import MlflowClient
from mlflow.entities import Metric, RunTag
from mlflow.entities.model_registry import ModelVersion
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import RESOURCE_ALREADY_EXISTS, ErrorCode

from ulr.config.settings import Settings
from ulr.errors import RegistryUnavailable, UserError
from ulr.registry.runs import LIVE, write_model, write_record
from ulr.registry.submission import Submission
from ulr.warehouse.stage import fingerprint

CHALLENGER, CHAMPION = "challenger", "champion"
DATABASE = "mlflow.db"
_MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")
_AWAY = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED")
_URI = "MLFLOW_TRACKING_URI"
_making = threading.Lock()


@dataclass(frozen=True)
class Registered:
    """A version of the registered model."""

    version: int
    run_id: str
    tags: Mapping[str, str]
    new: bool = False


class Registry:
    """One registered model on one tracking server, or in one SQLite file."""

    def __init__(
        self, uri: str, *, experiment: str, name: str, retries: int = 5, backoff: int = 2
    ) -> None:
        """uri: any that MLflow takes; a path is a folder with a SQLite file in it."""
        self.folder = None if "://" in uri else Path(uri).absolute()
        if self.folder:
            self.folder.mkdir(parents=True, exist_ok=True)
        self.uri = f"sqlite:///{self.folder / DATABASE}" if self.folder else uri
        self.experiment, self.name = experiment, name
        # MLflow retries every request itself, with exponential back-off; it asks these.
        os.environ["MLFLOW_HTTP_REQUEST_MAX_RETRIES"] = str(retries)
        os.environ["MLFLOW_HTTP_REQUEST_BACKOFF_FACTOR"] = str(backoff)
        for noisy in ("mlflow", "alembic"):
            logging.getLogger(noisy).setLevel(logging.WARNING)

    @property
    def client(self) -> MlflowClient:
        """MLflow's own client."""
        return MlflowClient(self.uri)

    def find(self, training: str) -> Registered | None:
        """The version that a training became, if it did."""
        with self._reaching():
            wanted = f"name='{self.name}' and tags.`ulr.fingerprint`='{training}'"
            found = self.client.search_model_versions(wanted, max_results=1)
            return _registered(found[0]) if found else None

    def send(self, training: Submission) -> Registered:
        """Log the run and register its model, unless that has been done."""
        known = self.find(training.fingerprint)
        if known:
            return known
        with self._reaching():
            self._sweep("ulr.fingerprint", training.fingerprint)
            self._sweep(LIVE, training.fingerprint)
            uri = self._log(training, training.tags)
            # Version and tags in one request: a version without its fingerprint cannot be left.
            made = mlflow.register_model(uri, self.name, tags=training.tags)
            return _registered(made, new=True)

    def send_comparison(
        self, name: str, trainings: Sequence[Submission], rows: Sequence[Mapping[str, Any]]
    ) -> str:
        """One run with the table, a child for every training, nothing registered; its id.

        rows: the comparison's table. What has been sent before, and whole, is not sent again.
        """
        key = fingerprint([[t.fingerprint for t in trainings], list(rows)])
        with self._reaching():
            wanted = f"tags.`ulr.comparison` = '{key}' and attributes.status = 'FINISHED'"
            found = self.client.search_runs([self.experiment_id()], wanted)
            if found:
                return found[0].info.run_id
            self._sweep("ulr.comparison", key)
            tags = {"ulr.comparison": key}
            with mlflow.start_run(
                experiment_id=self.experiment_id(), run_name=name, tags=tags
            ) as parent:
                for training in trainings:
                    self._sweep(LIVE, training.fingerprint)
                    self._log(training, {f"compared.{k}": v for k, v in training.tags.items()},
                              nested=True)  # fmt: skip
                table = {column: [row[column] for row in rows] for column in rows[0]}
                self.client.log_table(parent.info.run_id, table, "comparison.json")
            return parent.info.run_id

    def version(self, number: int) -> Registered:
        """A version by its number."""
        with self._reaching():
            return _registered(self.client.get_model_version(self.name, str(number)))

    def holder(self, alias: str) -> Registered | None:
        """Who has the alias."""
        with self._reaching():
            try:
                return _registered(self.client.get_model_version_by_alias(self.name, alias))
            except MlflowException as error:
                if error.error_code in _MISSING:
                    return None
                raise

    def give(self, alias: str, version: int) -> None:
        """Move the alias to a version."""
        with self._reaching():
            self.client.set_registered_model_alias(self.name, alias, str(version))

    def note(
        self, who: Registered, tags: Mapping[str, str], metrics: Mapping[str, float] | None = None
    ) -> None:
        """Write tags on a version and on its run, and metrics on the run."""
        with self._reaching():
            client = self.client
            for key, value in tags.items():
                client.set_model_version_tag(self.name, str(who.version), key, value)
            now = int(time.time() * 1000)
            listed = [Metric(n, v, now, 0) for n, v in (metrics or {}).items() if math.isfinite(v)]
            run_tags = [RunTag(key, value) for key, value in tags.items()]
            client.log_batch(who.run_id, metrics=listed, tags=run_tags)

    def attach_report(self, run_id: str, page: str) -> None:
        """Keep the report's page among the artifacts of a run, instead of an earlier one."""
        with self._reaching():
            self.client.log_text(run_id, page, "report.html")

    def model_text(self, uri: str) -> str:
        """LightGBM's text of a model by URI, such as models:/NAME@champion."""
        with self._reaching():
            try:
                return mlflow.lightgbm.load_model(uri).model_to_string()
            except MlflowException as error:
                if error.error_code in _MISSING:
                    raise UserError(
                        f"no model {uri} at {self.uri}; expected models:/NAME/VERSION or "
                        "models:/NAME@ALIAS, see `ulr registry list`"
                    ) from None
                raise

    def versions(self) -> list[Registered]:
        """Every version, newest first."""
        with self._reaching():
            found = self.client.search_model_versions(f"name='{self.name}'")
            return [_registered(v) for v in sorted(found, key=lambda v: -int(v.version))]

    def experiment_id(self) -> str:
        """The experiment of all runs, made where there is none yet."""
        if self.folder:
            _make_database(self.folder / DATABASE)
        client = self.client
        found = client.get_experiment_by_name(self.experiment)
        if found:
            return found.experiment_id
        place = (self.folder / "artifacts").as_uri() if self.folder else None
        try:
            return client.create_experiment(self.experiment, artifact_location=place)
        except MlflowException as error:  # another process was quicker
            if error.error_code != ErrorCode.Name(RESOURCE_ALREADY_EXISTS):
                raise
            return client.get_experiment_by_name(self.experiment).experiment_id

    def _sweep(self, tag: str, value: str) -> None:
        """Runs of the same thing that were interrupted before it was whole: remove them."""
        wanted = f"tags.`{tag}` = '{value}'"
        for run in self.client.search_runs([self.experiment_id()], wanted):
            self.client.delete_run(run.info.run_id)

    def _log(self, training: Submission, tags: Mapping[str, str], *, nested: bool = False) -> str:
        """One run with all that is known of a training; the URI of its model."""
        where = self.experiment_id()
        with (
            tempfile.TemporaryDirectory() as folder,
            mlflow.start_run(
                experiment_id=where, run_name=training.name, tags=dict(tags), nested=nested
            ) as run,
        ):
            write_record(self.client, run.info.run_id, training)
            return write_model(training, Path(folder))

    @contextlib.contextmanager
    def _reaching(self) -> Iterator[None]:
        """MLflow's functions speak to this server in the block; one that does not answer, after
        MLflow's own retries, is one clear error."""
        before = os.environ.get(_URI)
        if self.folder:
            _make_database(self.folder / DATABASE)
        mlflow.set_tracking_uri(self.uri)  # also changes the environment, which is not ours
        try:
            yield
        except (MlflowException, OSError) as error:
            if isinstance(error, MlflowException) and error.error_code not in _AWAY:
                raise
            why = str(error).splitlines()[0][:200]
            raise RegistryUnavailable(
                f"the model registry {self.uri} does not answer: {why}"
            ) from error
        finally:
            os.environ.pop(_URI, None)
            if before is not None:
                os.environ[_URI] = before


def _make_database(path: Path) -> None:
    """MLflow makes its tables in dozens of steps and cannot go on from the middle of them, so they
    are made aside: whoever is killed meanwhile leaves no database."""
    with _making:
        if path.exists():
            return
        aside = path.with_name(f".{uuid.uuid4().hex}.{path.name}")
        MlflowClient(f"sqlite:///{aside}").search_experiments(max_results=1)
        with contextlib.suppress(FileExistsError):  # another process was quicker
            path.hardlink_to(aside)
        aside.unlink()


def _registered(found: ModelVersion, *, new: bool = False) -> Registered:
    return Registered(int(found.version), found.run_id, dict(found.tags), new)


def registry_of(settings: Settings) -> Registry:
    """The server that the settings name, or the environment, or the folder."""
    how = settings.mlflow
    uri = how.tracking_uri or os.environ.get("MLFLOW_TRACKING_URI") or how.local_path
    return Registry(
        uri,
        experiment=how.experiment,
        name=how.registered_model,
        retries=how.retries,
        backoff=how.backoff,
    )
