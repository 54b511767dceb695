"""Write a trained model and its record (settings, metrics, files) to an MLflow run."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path

import mlflow.lightgbm
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.models import ModelSignature
from mlflow.types.schema import Schema, TensorSpec

from ulr.models.booster import lightgbm_version, load_booster
from ulr.registry.submission import Submission
from ulr.report.charts.propensities import propensities_svg

_PARAM_LENGTH = 500


def history_name(metric: str) -> str:
    """Return the MLflow name of a validation metric that is logged per iteration."""
    return f"validation_{metric}"


def write_record(client: MlflowClient, run_id: str, submission: Submission) -> None:
    """Log settings, metrics, files and the propensity curve."""
    now = int(time.time() * 1000)
    params = [Param(k, v[:_PARAM_LENGTH]) for k, v in sorted(submission.params.items())]
    metrics = [Metric(n, v, now, 0) for n, v in submission.metrics.items() if math.isfinite(v)]
    for name, values in submission.history.items():
        metrics += [Metric(history_name(name), v, now, step)
                    for step, v in enumerate(values, start=1) if math.isfinite(v)]  # fmt: skip
    client.log_batch(run_id, metrics=metrics, params=params)
    for name, content in submission.files.items():
        client.log_text(run_id, content, name)
    curve = json.loads(submission.files.get("propensities.json", "[]"))
    if curve:
        client.log_text(run_id, propensities_svg(curve), "propensities.svg")


def write_model(submission: Submission, folder: Path) -> str:
    """Log the Booster and the submission's files in MLflow's LightGBM flavour; return the URI.

    Loading the model requires lightgbm but not this package.
    """
    booster = load_booster(submission.model)
    example = np.array(submission.example, np.float32)
    inputs = Schema([TensorSpec(np.dtype("float32"), (-1, booster.num_feature()))])
    outputs = Schema([TensorSpec(np.dtype("float64"), (-1,))])
    paths = [folder / name for name in submission.files]
    for path in paths:
        path.write_text(submission.files[path.name])
    info = mlflow.lightgbm.log_model(
        booster,
        name="model",
        signature=ModelSignature(inputs, outputs),
        input_example=example if example.size else None,
        pip_requirements=[f"lightgbm=={lightgbm_version()}"],
        extra_files=[path.as_uri() for path in paths],
    )
    return info.model_uri
