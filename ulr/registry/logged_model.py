"""The logged model: LightGBM's flavour of MLflow, with a signature and a loader that casts."""

from __future__ import annotations

import types
from collections.abc import Mapping, Sequence
from functools import partial
from importlib.resources import files as package_files
from pathlib import Path
from typing import Any

import mlflow.lightgbm
import numpy as np
import pandas as pd
from mlflow import pyfunc
from mlflow.models import Model, ModelSignature
from mlflow.types.schema import ColSpec, Schema, TensorSpec

from ulr.models.booster import lightgbm_version, load_booster, model_feature_names
from ulr.registry.submission import Submission

_LOADER = "ulr_scorer"  # module in ulr.models.export; stored as code/ulr_scorer.py


def write_model(
    submission: Submission,
    files: Sequence[Path],
    folder: Path,
    params: Mapping[str, str],
    tags: Mapping[str, str],
) -> str:
    """Log model and files in MLflow's LightGBM flavour to the active run; return the model's id.

    Loading the model requires lightgbm but not this package. The model is logged before the
    metrics: MLflow would request the history of each metric of the run, one by one, to find those
    that belong to the model. folder: for temporary files. params, tags: of the logged model.
    """
    booster = load_booster(submission.model)
    # The stored file has the bytes that were hashed, with parameters that LightGBM has not read.
    vars(booster)["save_model"] = partial(_write_text, submission.model)
    loader = folder / f"{_LOADER}.py"
    loader.write_text(package_files("ulr.models.export").joinpath(loader.name).read_text())
    names = model_feature_names(booster)
    info = Model.log(
        artifact_path=None,
        name="model",
        flavor=_FLAVOR,
        lgb_model=booster,
        params=dict(params),
        tags=dict(tags),
        signature=_signature(names, booster.num_feature()),
        input_example=_example(submission, names),
        pip_requirements=[f"lightgbm=={lightgbm_version()}"],
        code_paths=[str(loader)],
        extra_files=[path.as_uri() for path in files],
        validate_serving_input=False,  # it would call the flavour's loader
    )
    return str(info.model_id)


def _signature(names: Sequence[str], width: int) -> ModelSignature:
    """Return double columns: MLflow orders them by name, and takes float32 and float64.

    Without names it checks their number.
    """
    columns: list[ColSpec | TensorSpec]
    columns = [ColSpec("double", name) for name in names] or [ColSpec("double")] * width
    return ModelSignature(Schema(columns), Schema([ColSpec("double")]))


def _example(submission: Submission, names: Sequence[str]) -> pd.DataFrame | np.ndarray | None:
    example = np.array(submission.example, np.float32)
    if not example.size:
        return None
    return pd.DataFrame(example, columns=list(names)) if names else example


def _save_model(path: str, mlflow_model: Model, **options: Any) -> None:
    """Save the flavour, and replace the loader that passes float64 values on."""
    mlflow.lightgbm.save_model(path=path, mlflow_model=mlflow_model, **options)
    mlflow_model.flavors[pyfunc.FLAVOR_NAME][pyfunc.MAIN] = _LOADER
    mlflow_model.save(str(Path(path) / "MLmodel"))


_FLAVOR = types.SimpleNamespace(__name__="mlflow.lightgbm", save_model=_save_model)


def _write_text(text: str, path: str) -> None:
    Path(path).write_bytes(text.encode())
