"""Write a trained model and its record (settings, metrics, files) to a run."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from functools import partial
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


def write_model(submission: Submission, files: Sequence[Path], tags: Mapping[str, str]) -> str:
    """Log model and files in MLflow's LightGBM flavour to the active run; return the model's id.

    Loading the model requires lightgbm but not this package. The model is logged before the
    metrics: MLflow would request the history of each metric of the run, one by one, to find those
    that belong to the model. tags: of the logged model.
    """
    booster = load_booster(submission.model)
    # The stored file has the bytes that were hashed, with parameters that LightGBM has not read.
    vars(booster)["save_model"] = partial(_write_text, submission.model)
    example = np.array(submission.example, np.float32)
    inputs = Schema([TensorSpec(np.dtype("float32"), (-1, booster.num_feature()))])
    outputs = Schema([TensorSpec(np.dtype("float64"), (-1,))])
    info = mlflow.lightgbm.log_model(
        booster,
        name="model",
        params=_params(submission),
        tags=dict(tags),
        signature=ModelSignature(inputs, outputs),
        input_example=example if example.size else None,
        pip_requirements=[f"lightgbm=={lightgbm_version()}"],
        extra_files=[path.as_uri() for path in files],
        validate_serving_input=False,  # it would call the flavour's loader
    )
    return info.model_id


def _write_text(text: str, path: str) -> None:
    Path(path).write_bytes(text.encode())


def write_record(
    client: MlflowClient, run_id: str, model_id: str, submission: Submission, folder: Path
) -> None:
    """Log settings and metrics in one request, and the files of a folder.

    The metrics are linked to the model; the histories of the validation metrics are not.
    """
    now = int(time.time() * 1000)
    params = [Param(name, value) for name, value in _params(submission).items()]
    metrics = [Metric(name, value, now, 0, model_id=model_id, run_id=run_id)
               for name, value in submission.metrics.items() if math.isfinite(value)]  # fmt: skip
    for name, values in submission.history.items():
        metrics += [Metric(history_name(name), v, now, step)
                    for step, v in enumerate(values, start=1) if math.isfinite(v)]  # fmt: skip
    client.log_batch(run_id, metrics=metrics, params=params)
    client.log_artifacts(run_id, str(folder))


def write_files(submission: Submission, folder: Path) -> list[Path]:
    """Write the submission's files and return their paths; also write the propensity curve."""
    paths = [folder / name for name in submission.files]
    for path in paths:
        path.write_text(submission.files[path.name])
    if curve := json.loads(submission.files.get("propensities.json", "[]")):
        (folder / "propensities.svg").write_text(propensities_svg(curve))
    return paths


def _params(submission: Submission) -> dict[str, str]:
    return {name: value[:_PARAM_LENGTH] for name, value in sorted(submission.params.items())}
