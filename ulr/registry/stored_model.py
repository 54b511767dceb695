"""Read the text of a registered model and compare it with the hash of its registration.

A model's folder in the registry also holds an `MLmodel` file, which names modules to import and
files to unpickle. Anyone who can write artifacts can change it. Therefore no flavour's loader is
called and `MLmodel` is not read: one file is downloaded, and it is parsed as text.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
from collections.abc import Callable
from typing import NamedTuple

from mlflow import MlflowClient
from mlflow.store.artifact.artifact_repository_registry import get_artifact_repository
from mlflow.store.artifact.local_artifact_repo import LocalArtifactRepository
from mlflow.store.artifact.utils.models import get_model_name_and_version

from ulr.errors import UserError
from ulr.models.check import read_checked
from ulr.models.files import check_size, read_model_file
from ulr.registry.tags import MODEL_SHA256

FILE = "model.lgb"  # the name that MLflow's LightGBM flavour gives to a Booster
EXPECTED = "models:/NAME/VERSION or models:/NAME@ALIAS, see `ulr registry list`"
_MODEL_URI = re.compile(r"models:/[^/@]+(/[^/@]+|@[^/@]+)?")
_SHA256 = re.compile(r"[0-9a-f]{64}")
_RUN_URI = re.compile(r"runs:/[^/]+/.+")

Warn = Callable[[str], None]  # takes one line for the user


class _Source(NamedTuple):
    """A model in the registry. sha256: of its text when it was registered, None if unknown."""

    name: str
    location: str
    sha256: str | None


def sha256_of(text: str) -> str:
    """Return the SHA-256 of a model's text, as sha256sum prints it for the file."""
    return hashlib.sha256(text.encode()).hexdigest()


def ignore(_: str) -> None:
    """Discard a warning."""


def read_stored_model(client: MlflowClient, uri: str, warn: Warn = ignore) -> str:
    """Return the LightGBM text of a model by URI.

    Raise UserError if it is not the text that was registered, or not a valid model. A model without
    a registered hash is accepted with a warning.
    """
    source = _find(client, uri)
    content = _download(source.location, source.name)
    actual = hashlib.sha256(content).hexdigest()
    if source.sha256 is None:
        warn(
            f"{source.name} has no tag {MODEL_SHA256}, so a change of its file since the "
            "registration cannot be detected; only its structure was checked"
        )
    elif actual != source.sha256:
        raise UserError(
            f"{source.name} was changed after its registration: the SHA-256 of {FILE} is {actual}, "
            f"expected {_shown(source.sha256)}; restore the file, or delete the version and "
            "register the model again with `ulr registry send`"
        )
    return read_checked(content, source.name)


def _shown(tag: str) -> str:
    """Return the hash for a message; a tag can have any value, also one that controls terminals."""
    return tag if _SHA256.fullmatch(tag) else f"{tag[:64]!a}"


def _find(client: MlflowClient, uri: str) -> _Source:
    if _RUN_URI.fullmatch(uri):
        run = client.get_run(uri.split("/")[1])
        return _Source(uri, uri, run.data.tags.get(MODEL_SHA256))
    if not _MODEL_URI.fullmatch(uri):
        raise UserError(f"{uri} is not a model of the registry; expected {EXPECTED}")
    key = get_model_name_and_version(client, uri)
    if len(key) == 1:
        model = client.get_logged_model(key[0])
        return _Source(uri, model.artifact_location, (model.tags or {}).get(MODEL_SHA256))
    name, number = key
    version = client.get_model_version(name, str(number))
    location = client.get_model_version_download_uri(name, str(number))
    return _Source(f"version {number} of {name}", location, version.tags.get(MODEL_SHA256))


def _download(location: str, name: str) -> bytes:
    repository = get_artifact_repository(location)
    if isinstance(repository, LocalArtifactRepository):
        return read_model_file(f"{repository.artifact_dir}/{FILE}", name)
    sizes = {
        file.path.rpartition("/")[2]: file.file_size
        for file in repository.list_artifacts("")
        if not file.is_dir
    }
    if FILE not in sizes:
        raise UserError(
            f"{name} has no file {FILE}; expected a LightGBM Booster, logged with "
            "mlflow.lightgbm.log_model"
        )
    check_size(sizes[FILE] or 0, name)
    with tempfile.TemporaryDirectory() as folder:
        return read_model_file(repository.download_artifacts(FILE, folder), name)
