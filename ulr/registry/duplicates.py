"""Remove what exists twice after a lost answer: versions, runs and logged models of one training.

MLflow repeats a request whose answer did not arrive, although the server may have processed it. The
tag with the training's fingerprint is part of each of these requests, so all results are found.
"""

from __future__ import annotations

import contextlib
from collections.abc import Container, Iterator, Sequence

from mlflow import MlflowClient
from mlflow.entities.model_registry import ModelVersion
from mlflow.entities.model_registry.model_version_search import ModelVersionSearch
from mlflow.exceptions import MlflowException

from ulr.registry import tags

MISSING = ("RESOURCE_DOES_NOT_EXIST", "INVALID_PARAMETER_VALUE")  # error codes of MLflow


def all_versions(client: MlflowClient, name: str) -> list[ModelVersion]:
    """Return every version of a registered model, lowest first, with its tags.

    The name is the only filter: Unity Catalog has no other one, and its search returns no tags.
    """
    versions: list[ModelVersion] = []
    token = None
    while True:
        page = client.search_model_versions(f"name='{name}'", page_token=token)
        versions += (_with_tags(client, version) for version in page)
        token = page.token
        if not token:
            return sorted(versions, key=lambda version: int(version.version))


def _with_tags(client: MlflowClient, version: ModelVersion) -> ModelVersion:
    if isinstance(version, ModelVersionSearch):
        return client.get_model_version(version.name, version.version)
    return version


def versions_of(client: MlflowClient, name: str, fingerprint: str) -> list[ModelVersion]:
    """Return the versions of a training, lowest first; more than one after a lost answer."""
    versions = all_versions(client, name)
    return [v for v in versions if v.tags.get(tags.FINGERPRINT) == fingerprint]


def keep_lowest(client: MlflowClient, name: str, versions: Sequence[ModelVersion]) -> ModelVersion:
    """Delete all versions but the first, which takes over their aliases, and return it."""
    kept, *others = versions
    for other in others:
        for alias in client.get_model_version(name, other.version).aliases:
            client.set_registered_model_alias(name, alias, kept.version)
        with _unless_missing():
            client.delete_model_version(name, other.version)
    return kept


def delete_unregistered(client: MlflowClient, experiment_id: str, version: ModelVersion) -> None:
    """Delete the runs and logged models of a version's training that no version refers to."""
    query = f"tags.`{tags.FINGERPRINT}` = '{version.tags[tags.FINGERPRINT]}'"
    if not version.run_id:
        return
    for run in client.search_runs([experiment_id], query):
        run_id = run.info.run_id
        if run_id != version.run_id and not _versions_of_run(client, version.name, run_id):
            delete_run(client, run_id)
    for model in client.search_logged_models([experiment_id], query):
        uri = f"models:/{model.model_id}"  # a version's source; its model_id may be missing
        if uri == version.source:
            continue
        if uri not in {
            v.source for v in _versions_of_run(client, version.name, model.source_run_id)
        }:
            with _unless_missing():
                client.delete_logged_model(model.model_id)


def delete_runs(
    client: MlflowClient, experiment_id: str, query: str, *, keep: Container[str] = ()
) -> None:
    """Delete the runs that match, except those in `keep`."""
    for run in client.search_runs([experiment_id], query):
        if run.info.run_id not in keep:
            delete_run(client, run.info.run_id)


def delete_run(client: MlflowClient, run_id: str) -> None:
    """Delete a run, unless it was deleted in the meantime."""
    with _unless_missing():
        client.delete_run(run_id)


def _versions_of_run(client: MlflowClient, name: str, run_id: str | None) -> Sequence[ModelVersion]:
    """Return the versions of a run, of any registered model if the server can search for them."""
    if not run_id:
        return []
    try:
        return client.search_model_versions(f"run_id='{run_id}'")
    except MlflowException as error:
        if error.error_code not in MISSING:
            raise
    return [version for version in all_versions(client, name) if version.run_id == run_id]


@contextlib.contextmanager
def _unless_missing() -> Iterator[None]:
    """Ignore that an object is gone: a repeated request, or another process, has deleted it."""
    try:
        yield
    except MlflowException as error:
        if error.error_code not in MISSING:
            raise
