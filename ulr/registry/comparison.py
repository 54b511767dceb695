"""Log a comparison of models: one run with the table, and a child run per model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlflow
from mlflow.utils.mlflow_tags import MLFLOW_PARENT_RUN_ID

from ulr.registry import tags
from ulr.registry.client import Registry
from ulr.registry.duplicates import delete_run, delete_runs
from ulr.registry.lock import registry_lock
from ulr.registry.stored_model import sha256_of
from ulr.registry.submission import Submission
from ulr.warehouse.stage import fingerprint
from ulr.warehouse.tables import Warehouse


def log_comparison(
    registry: Registry,
    warehouse: Warehouse,
    name: str,
    submissions: Sequence[Submission],
    rows: Sequence[Mapping[str, Any]],
) -> str:
    """Log one run with the comparison's rows and a child per training; return its id.

    Nothing is registered. A comparison that was logged completely is not logged again. warehouse:
    the one whose writers of the registry take turns.
    """
    key = fingerprint([[s.fingerprint for s in submissions], list(rows)])
    with registry_lock(warehouse), registry.connected():
        client, experiment_id = registry.client, registry.experiment_id()
        query = f"tags.`{tags.COMPARISON}` = '{key}'"
        complete = client.search_runs(
            [experiment_id], f"{query} and attributes.status = 'FINISHED'"
        )
        if complete:
            return complete[0].info.run_id
        for run in client.search_runs([experiment_id], query):  # of an interrupted attempt
            delete_runs(client, experiment_id, _children_of(run.info.run_id))
            delete_run(client, run.info.run_id)
        with mlflow.start_run(
            experiment_id=experiment_id, run_name=name, tags={tags.COMPARISON: key}
        ) as parent:
            children = [_log_child(registry, submission) for submission in submissions]
            table = {column: [row[column] for row in rows] for column in rows[0]}
            client.log_table(parent.info.run_id, table, "comparison.json")
        # The runs of requests that MLflow has repeated because their answer was lost.
        delete_runs(client, experiment_id, query, keep=[parent.info.run_id])
        delete_runs(client, experiment_id, _children_of(parent.info.run_id), keep=children)
        return parent.info.run_id


def _log_child(registry: Registry, submission: Submission) -> str:
    """Log a run inside the active one, in place of the training's live run; return its id."""
    live = f"tags.`{tags.LIVE}` = '{submission.fingerprint}'"
    delete_runs(registry.client, registry.experiment_id(), live)
    renamed = {
        tags.COMPARED + tag.removeprefix("ulr."): value for tag, value in submission.tags.items()
    }
    own = renamed | {tags.MODEL_SHA256: sha256_of(submission.model)}
    return registry.log_run(submission, own, nested=True)[0]


def _children_of(run_id: str) -> str:
    return f"tags.`{MLFLOW_PARENT_RUN_ID}` = '{run_id}'"
