"""The image's MLflow: no request without a password, and a job that can do all of its work."""

from __future__ import annotations

import base64
import contextlib
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from tests.support.registry_server import free_port
from tests.support.services import (
    DOCKER,
    Sandbox,
    read_compose,
    read_secrets,
    running_service,
)
from tests.support.waiting import LIMIT_S

API = "/api/2.0/mlflow"
ARTIFACTS = "/api/2.0/mlflow-artifacts/artifacts"
JOB = """
import os
from tests.support.registry_server import submission
from ulr.registry import Registry
registry = Registry(os.environ["MLFLOW_TRACKING_URI"], experiment="ulr", name="ulr-ranker")
assert registry.version_with_alias("champion") is None  # there is no model yet
version = registry.register(submission())
registry.set_alias("champion", version.version)
assert registry.register(submission()).version == version.version
print(registry.version_with_alias("champion").version, flush=True)
"""
pytestmark = [
    pytest.mark.all,
    pytest.mark.cluster,
    pytest.mark.skipif(
        not list(Path("/usr/lib/postgresql").glob("*/bin/initdb")),
        reason="PostgreSQL is not installed",
    ),
]


@pytest.fixture(scope="module")
def registry(tmp_path_factory):
    """Run PostgreSQL and MLflow of compose.yaml as processes; yield the sandbox and the port."""
    folder = tmp_path_factory.mktemp("compose")
    for parent in (folder, *folder.parents):
        if parent == Path(tempfile.gettempdir()):
            break
        parent.chmod(0o755)  # PostgreSQL runs as another user
    text = (DOCKER / "compose.yaml").read_text()
    database, port = str(free_port()), str(free_port())
    text = text.replace("5432", database).replace("5000", port)
    for name in ("postgres", "spark", "mlflow-key", "mlflow-admin", "mlflow-job"):
        (folder / name).write_text(f"{name}%:-long-enough\n")
    environ = {"ULR_SECRETS": str(folder)}
    services = read_compose(text, environ)
    services["postgres"]["environment"]["PGPORT"] = database
    services["mlflow"]["environment"]["MLFLOW_WORKERS"] = "1"
    sandbox = Sandbox(folder, services, read_secrets(text, environ))
    with contextlib.ExitStack() as stack:
        for name in ("postgres", "mlflow"):
            stack.enter_context(running_service(sandbox, name))
        yield sandbox, int(port)


def status(port: int, method: str, path: str, user: str = "", body: bytes | None = None) -> int:
    """Return the HTTP status of a request; user: NAME:PASSWORD."""
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", body, method=method)
    request.add_header("Content-Type", "application/json")
    if user:
        request.add_header("Authorization", f"Basic {base64.b64encode(user.encode()).decode()}")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(request, timeout=LIMIT_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("user", ["", "ulr:wrong-password"])
def test_requests_without_the_right_password_are_refused(registry, user):
    _, port = registry
    requests = [
        ("GET", f"{API}/experiments/search?max_results=5", None),
        ("POST", f"{API}/registered-models/create", b'{"name": "mine"}'),
        ("GET", f"{ARTIFACTS}?path=0", None),
        ("PUT", f"{ARTIFACTS}/0/run/artifacts/model/MLmodel", b"flavors:"),
    ]
    assert [status(port, method, path, user, body) for method, path, body in requests] == [401] * 4


def test_the_job_can_register_and_promote_its_first_model(registry):
    sandbox, port = registry
    password = sandbox.secrets["mlflow-job"].read_text().strip()
    env = {**os.environ, "MLFLOW_TRACKING_URI": f"http://127.0.0.1:{port}",
           "MLFLOW_TRACKING_USERNAME": "ulr", "MLFLOW_TRACKING_PASSWORD": password}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", JOB], env=env, cwd=DOCKER.parent, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stdout.splitlines()[-1:] == ["1"], done.stderr[-2000:]
    users = f"{API}/users/create"
    other = b'{"username": "other", "password": "long-enough-too"}'
    assert status(port, "POST", users, f"ulr:{password}", other) == 403


def test_no_secret_is_on_a_command_line_and_files_with_secrets_are_private(registry):
    sandbox, _ = registry
    home = Path(sandbox.environment("mlflow")["HOME"]) / "mlflow"
    assert {file.name for file in home.iterdir()} == {"basic_auth.ini", "pgpass"}
    assert all(file.stat().st_mode & 0o077 == 0 for file in [home, *home.iterdir()])
    secrets = [path.read_text().strip().encode() for path in sandbox.secrets.values()]
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            command = file.read_bytes()
            assert not [secret for secret in secrets if secret in command]
