"""Write a trained model and its record (settings, metrics, files) to a run; read a model."""

from __future__ import annotations

import json
import math
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import mlflow.lightgbm
import numpy as np
from mlflow import MlflowClient
from mlflow.entities import Metric, Param
from mlflow.lightgbm import FLAVOR_NAME
from mlflow.models import Model, ModelSignature
from mlflow.models.model import MLMODEL_FILE_NAME
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.types.schema import Schema, TensorSpec

from ulr.errors import UserError
from ulr.models.booster import lightgbm_version, load_booster
from ulr.models.check import read_checked
from ulr.registry.submission import Submission
from ulr.report.charts.propensities import propensities_svg

_PARAM_LENGTH = 500
_BOOSTER = "lightgbm.basic.Booster"


def history_name(metric: str) -> str:
    """Return the MLflow name of a validation metric that is logged per iteration."""
    return f"validation_{metric}"


def write_model(submission: Submission, files: Sequence[Path]) -> str:
    """Log the Booster and files in MLflow's LightGBM flavour to the active run; return its id.

    Loading the model requires lightgbm but not this package. The model is logged before the
    metrics: MLflow would request the history of each metric of the run, one by one, to find those
    that belong to the model.
    """
    booster = load_booster(submission.model, parameters=True)
    example = np.array(submission.example, np.float32)
    inputs = Schema([TensorSpec(np.dtype("float32"), (-1, booster.num_feature()))])
    outputs = Schema([TensorSpec(np.dtype("float64"), (-1,))])
    info = mlflow.lightgbm.log_model(
        booster,
        name="model",
        params=_params(submission),
        signature=ModelSignature(inputs, outputs),
        input_example=example if example.size else None,
        pip_requirements=[f"lightgbm=={lightgbm_version()}"],
        extra_files=[path.as_uri() for path in files],
    )
    return info.model_id


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


def read_model_text(uri: str) -> str:
    """Return the text of a LightGBM model by URI; of its folder, two files are downloaded.

    The folder has about twenty files, and each is a request.
    """
    with tempfile.TemporaryDirectory() as folder:
        repository = get_artifact_repository(uri)
        flavors = Model.load(repository.download_artifacts(MLMODEL_FILE_NAME, folder)).flavors
        flavor = flavors.get(FLAVOR_NAME, {})
        if flavor.get("model_class", _BOOSTER) != _BOOSTER or "data" not in flavor:
            raise UserError(
                f"model {uri} has the flavours {', '.join(flavors)}; expected a LightGBM Booster, "
                "logged with mlflow.lightgbm.log_model"
            )
        path = repository.download_artifacts(flavor["data"], folder)
        return read_checked(Path(path).read_bytes(), uri)


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
