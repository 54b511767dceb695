"""Write the record of a training to a run: settings, metrics, dataset, files."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from mlflow import MlflowClient
from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

from ulr.models.export.formats import FILES, export_model
from ulr.registry.submission import Submission
from ulr.registry.tags import METHOD
from ulr.report.charts.importance import importance_svg
from ulr.report.charts.propensities import propensities_svg

EXPORT_FOLDER = "export"
IMPORTANCE = "importance.json"  # a table of MLflow
_PARAM_LENGTH = 500


def history_name(metric: str) -> str:
    """Return the MLflow name of a validation metric that is logged per iteration."""
    return f"validation_{metric}"


def write_record(
    client: MlflowClient, run_id: str, model_id: str, submission: Submission, folder: Path
) -> None:
    """Log settings and metrics in one request, and the files of a folder.

    The metrics are linked to the model; the histories of the validation metrics are not.
    """
    now = int(time.time() * 1000)
    params = [Param(name, value) for name, value in run_params(submission).items()]
    metrics = [Metric(name, value, now, 0, model_id=model_id, run_id=run_id)
               for name, value in submission.metrics.items() if math.isfinite(value)]  # fmt: skip
    for name, values in submission.history.items():
        metrics += [Metric(history_name(name), v, now, step)
                    for step, v in enumerate(values, start=1) if math.isfinite(v)]  # fmt: skip
    # The tag by which MLflow lists the run's tables.
    tables = [{"path": name, "type": "table"} for name in (IMPORTANCE,) if (folder / name).exists()]
    tags = [RunTag(MLFLOW_LOGGED_ARTIFACTS, json.dumps(tables))] if tables else []
    client.log_batch(run_id, metrics=metrics, params=params, tags=tags)
    if submission.dataset:
        context = [InputTag("mlflow.data.context", "training")]
        client.log_inputs(run_id, [DatasetInput(Dataset(**submission.dataset), context)])
    client.log_artifacts(run_id, str(folder))


def write_files(submission: Submission, folder: Path) -> list[Path]:
    """Write the files of the logged model and return their paths; also write the curve's figure.

    Exported models are in the folder `export`.
    """
    paths = [folder / name for name in submission.files]
    for path in paths:
        path.write_text(submission.files[path.name])
    exports = folder / EXPORT_FOLDER
    for form in submission.exports:
        exports.mkdir(exist_ok=True)
        path = exports / FILES[form]
        path.write_bytes(export_model(submission.model, form, submission.engine_name))
        paths.append(path)
    if curve := json.loads(submission.files.get("propensities.json", "[]")):
        (folder / "propensities.svg").write_text(propensities_svg(curve))
    importance = json.loads(submission.files.get("record.json", "{}")).get("importance")
    if importance:
        model = submission.tags.get(METHOD, "the model")
        (folder / "importance.svg").write_text(importance_svg(importance, model))
        (folder / IMPORTANCE).write_text(_table(importance["features"]))
    return paths


def _table(rows: list[dict[str, Any]]) -> str:
    """Return rows as `mlflow.log_table` stores them, without its requests."""
    columns = list(rows[0])
    data = [[row[column] for column in columns] for row in rows]
    return json.dumps({"columns": columns, "data": data})


def run_params(submission: Submission) -> dict[str, str]:
    """Return the parameters of a run, with values of the length that MLflow takes."""
    return {name: value[:_PARAM_LENGTH] for name, value in sorted(submission.params.items())}
