"""MLflow's tracking server, or its SQLite file, for the time of a block."""

from __future__ import annotations

import contextlib
import os
import threading
import uuid
from collections.abc import Iterator
from pathlib import Path

import mlflow
from mlflow import MlflowClient
from mlflow.exceptions import MlflowException

from ulr.errors import RegistryUnavailable, UserError

TRACKING_URI = "MLFLOW_TRACKING_URI"
_UNAVAILABLE = ("INTERNAL_ERROR", "TEMPORARILY_UNAVAILABLE", "REQUEST_LIMIT_EXCEEDED")
_REFUSED = ("UNAUTHENTICATED", "CUSTOMER_UNAUTHORIZED", "PERMISSION_DENIED")
_creating = threading.Lock()


@contextlib.contextmanager
def connected(uri: str) -> Iterator[None]:
    """Point MLflow's module functions at a server for the block.

    Raise RegistryUnavailable if it does not answer after MLflow's own retries, and UserError if it
    refuses the credentials.
    """
    before = os.environ.get(TRACKING_URI)
    mlflow.set_tracking_uri(uri)  # also sets the environment variable, restored below
    try:
        yield
    except (MlflowException, OSError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        if isinstance(error, MlflowException) and error.error_code in _REFUSED:
            raise UserError(
                f"the model registry {uri} refused the request: {reason}; set "
                "MLFLOW_TRACKING_USERNAME and MLFLOW_TRACKING_PASSWORD to a user with permission"
            ) from error
        if isinstance(error, MlflowException) and not is_unavailable(error):
            raise
        raise RegistryUnavailable(f"the model registry {uri} does not answer: {reason}") from error
    finally:
        os.environ.pop(TRACKING_URI, None)
        if before is not None:
            os.environ[TRACKING_URI] = before


def is_unavailable(error: MlflowException) -> bool:
    """Return whether the same request may succeed later."""
    return error.error_code in _UNAVAILABLE


def create_database(path: Path) -> None:
    """Create MLflow's SQLite file if it is missing, under a temporary name first.

    MLflow creates its tables in dozens of steps and cannot resume from the middle of them, so a
    killed process must not leave a partial database.
    """
    with _creating:
        if path.exists():
            return
        temporary = path.with_name(f".{uuid.uuid4().hex}.{path.name}")
        MlflowClient(f"sqlite:///{temporary}").search_experiments(max_results=1)
        with contextlib.suppress(FileExistsError):  # another process was faster
            path.hardlink_to(temporary)
        temporary.unlink()
