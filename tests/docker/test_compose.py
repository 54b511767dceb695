"""The guarantees of compose.yaml, and the roles of the image's entrypoint."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from fnmatch import fnmatch
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support.services import (
    CannotStart,
    Sandbox,
    read_compose,
    read_secrets,
    run_job,
    start_order,
    stop_process_group,
)
from tests.support.waiting import LIMIT_S

pytestmark = pytest.mark.all

DOCKER = Path(__file__).parents[2] / "docker"


@pytest.fixture(scope="module")
def text():
    return (DOCKER / "compose.yaml").read_text()


@pytest.fixture(scope="module")
def services(text):
    return read_compose(text, {})


def entrypoint(*arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.defpath, "ULR_HOME": str(DOCKER.parent), **environ}
    command = [str(DOCKER / "entrypoint"), *arguments]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_compose_has_a_master_two_workers_a_registry_with_its_database_and_the_job(services):
    commands = {name: service.get("command", [None])[0] for name, service in services.items()}
    assert commands == {
        "spark-master": "master", "spark-worker-1": "worker", "spark-worker-2": "worker",
        "postgres": None, "mlflow": "mlflow", "job": "nightly",
    }  # fmt: skip
    roles = set(re.findall(r"^  ([a-z]+)\)$", (DOCKER / "entrypoint").read_text(), re.M))
    stages = {path.stem for path in (DOCKER.parent / "jobs").glob("*.py")}
    assert {command for command in commands.values() if command} <= roles | stages
    assert not roles & stages


def test_every_port_is_on_loopback_unless_ulr_bind_is_set(services, text):
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)
    open_to_all = read_compose(text, {"ULR_BIND": "0.0.0.0"})
    assert open_to_all["mlflow"]["ports"] == ["0.0.0.0:5000:5000"]


def test_secrets_are_files_and_no_environment_variable_holds_one(services, text):
    for name, service in services.items():
        for key, value in service.get("environment", {}).items():
            if re.search("PASSWORD|SECRET|TOKEN|KEY", key):
                assert key.endswith("_FILE"), (name, key)
                assert value.removeprefix("/run/secrets/") in service["secrets"]
    assert {name: set(service.get("secrets", [])) for name, service in services.items()} == {
        "spark-master": {"spark"}, "spark-worker-1": {"spark"}, "spark-worker-2": {"spark"},
        "postgres": {"postgres"}, "job": {"spark", "mlflow-job"},
        "mlflow": {"postgres", "mlflow-key", "mlflow-admin", "mlflow-job"},
    }  # fmt: skip


def test_the_error_for_a_missing_secret_names_it_in_one_line(text, tmp_path):
    for name in yaml.safe_load(text)["secrets"]:
        with pytest.raises(CannotStart, match=rf"^there is no secret {name} at .*{name}; see \S+$"):
            read_secrets(text, {"ULR_SECRETS": str(tmp_path)})
        (tmp_path / name).write_text("x")
    assert read_secrets(text, {"ULR_SECRETS": str(tmp_path)}).keys() == {
        "postgres", "spark", "mlflow-key", "mlflow-admin", "mlflow-job",
    }  # fmt: skip


def test_the_database_is_reached_by_the_registry_alone_and_the_registry_by_the_job(services, text):
    members: dict[str, set[str]] = {}
    for name, service in services.items():
        for network in service["networks"]:
            members.setdefault(network, set()).add(name)
    assert members == {
        "cluster": {"spark-master", "spark-worker-1", "spark-worker-2", "job"},
        "registry": {"mlflow", "job"}, "database": {"mlflow", "postgres"},
    }  # fmt: skip
    assert yaml.safe_load(text)["networks"]["database"] == {"internal": True}


def test_every_container_has_a_read_only_root_and_limits(services):
    for service in services.values():
        assert service["read_only"] is True
        assert service["cap_drop"] == ["ALL"]
        assert any(mount.startswith("/tmp:") for mount in service["tmpfs"])
        assert re.fullmatch(r"\d+g", service["mem_limit"])
        assert service["pids_limit"] >= 256


def test_a_service_starts_when_its_dependencies_are_healthy(services):
    dockerfile = (DOCKER / "Dockerfile").read_text()
    for service in services.values():
        assert "healthcheck" in service or ("build" in service and "HEALTHCHECK" in dockerfile)
        dependencies = service.get("depends_on", {}).values()
        assert all(entry == {"condition": "service_healthy"} for entry in dependencies)
    order = start_order(services)
    assert order.index("postgres") < order.index("mlflow")
    assert order.index("spark-master") < order.index("spark-worker-1")
    assert "job" not in order


def test_the_registry_accepts_requests_under_the_host_name_that_the_job_uses(services):
    address = urlsplit(services["job"]["environment"]["MLFLOW_TRACKING_URI"]).netloc
    allowed = services["mlflow"]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert address in allowed
    assert "*" not in allowed


def test_models_and_tables_are_on_volumes(services, text):
    volumes = yaml.safe_load(text)["volumes"]
    mounted = {v.split(":")[0] for s in services.values() for v in s.get("volumes", [])}
    assert volumes.keys() == mounted - {"./settings.yaml", "/scratch"}
    artifacts = services["mlflow"]["environment"]["MLFLOW_ARTIFACTS_DESTINATION"]
    assert services["mlflow"]["volumes"] == [f"artifacts:{artifacts}"]
    shared = {services[name]["volumes"][0] for name in ("spark-worker-1", "spark-worker-2", "job")}
    assert shared == {"data:/srv/ulr/data"}


def test_the_image_has_a_pinned_base_an_unprivileged_user_and_no_build_tools():
    lines = (DOCKER / "Dockerfile").read_text().splitlines()
    assert re.search(r"^ARG BASE=\S+:bookworm-\d{8}-slim$", "\n".join(lines), re.M)
    final = lines[len(lines) - lines[::-1].index("FROM ${BASE}") :]
    (user,) = (line.split()[1] for line in final if line.startswith("USER "))
    assert any(f"useradd --uid {user} " in line for line in final)
    assert not [line for line in final if re.search(r"\b(pip|gcc|venv)\b", line)]


def test_every_file_that_the_image_copies_is_in_the_build_context():
    ignore_file = (DOCKER.parent / ".dockerignore").read_text()
    included = [line[1:] for line in ignore_file.splitlines() if line.startswith("!")]
    for line in (DOCKER / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (DOCKER.parent / source).exists()
                assert any(fnmatch(source, f"{name}*") for name in included), source


@pytest.mark.parametrize(
    ("role", "name"),
    [("worker", "SPARK_MASTER_URL"), ("mlflow", "MLFLOW_BACKEND_STORE_URI")],
)
def test_the_error_for_a_missing_setting_of_a_role_names_it(role, name, tmp_path):
    done = entrypoint(role, TMPDIR=str(tmp_path))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ulr-entrypoint: {name} is not set; ")


@pytest.mark.parametrize(
    ("role", "name"),
    [("master", "SPARK_AUTH_SECRET"), ("worker", "SPARK_AUTH_SECRET"),
     ("mlflow", "MLFLOW_SECRET_KEY")],
)  # fmt: skip
def test_a_server_does_not_start_without_its_secret(role, name, tmp_path):
    env = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "SPARK_MASTER_URL": "spark://m:7077",
           "SPARK_HOME": "/no/such", "MLFLOW_BACKEND_STORE_URI": "sqlite://",
           "MLFLOW_ARTIFACTS_DESTINATION": "x"}  # fmt: skip
    empty = tmp_path / "empty"
    empty.touch()
    for given in ({}, {f"{name}_FILE": str(empty)}, {f"{name}_FILE": str(tmp_path / "absent")}):
        done = entrypoint(role, **env, **given)
        assert done.returncode == 2
        (line,) = done.stderr.splitlines()
        assert line.startswith("ulr-entrypoint: ")
        assert f"{name}_FILE" in line


def test_a_stage_is_submitted_to_the_cluster_if_set_with_the_secret_in_a_private_file(
    tmp_path,
):
    submit, local = tmp_path / "bin" / "spark-submit", tmp_path / "ulr"
    submit.parent.mkdir()
    for program in (submit, local):
        program.write_text('#!/bin/sh\necho "$(basename $0) $*"\n')
        program.chmod(0o755)
    env = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "SPARK_HOME": str(tmp_path),
           "PATH": f"{tmp_path}:{os.defpath}"}  # fmt: skip
    stage = ("plan-swaps", "--date", "2026-01-01")
    assert entrypoint(*stage, **env).stdout == f"ulr {' '.join(stage)}\n"
    (tmp_path / "secret").write_text("s3cret\n")
    own = tmp_path / "own"
    own.mkdir()
    (own / "spark-defaults.conf").write_text(
        "spark.eventLog.enabled true\nspark.authenticate.secret old\n"
    )
    url = {"SPARK_MASTER_URL": "spark://m:7077", "SPARK_CONF_DIR": str(own),
           "SPARK_AUTH_SECRET_FILE": str(tmp_path / "secret")}  # fmt: skip
    done = entrypoint(*stage, **env, **url)
    assert done.stdout.startswith("spark-submit --master spark://m:7077")
    settings = f"--conf {DOCKER.parent}/conf/cluster.yaml"
    assert done.stdout.endswith(f"jobs/plan_swaps.py {settings} --date 2026-01-01\n")
    assert "s3cret" not in done.stdout
    defaults = tmp_path / "spark" / "spark-defaults.conf"
    assert defaults.read_text().splitlines() == [
        "spark.eventLog.enabled true", "spark.authenticate true",
        "spark.authenticate.secret s3cret", "spark.network.crypto.enabled true",
        "spark.network.crypto.authEngineVersion 2",
        "spark.network.crypto.cipher AES/GCM/NoPadding",
        "spark.network.crypto.saslFallback false", "spark.io.encryption.enabled true",
    ]  # fmt: skip
    assert defaults.stat().st_mode & 0o077 == 0


def test_the_health_check_is_that_of_the_running_role(tmp_path):
    env = {"TMPDIR": str(tmp_path), "PATH": f"{os.defpath}:/usr/local/bin"}
    assert entrypoint("health", **env).returncode != 0  # no role was started yet
    assert entrypoint("true", **env).returncode == 0
    assert entrypoint("health", **env).returncode == 0  # a job has no address to check
    (tmp_path / "ulr-health").write_text("http://127.0.0.1:9/")
    assert entrypoint("health", **env).returncode == 1


def test_a_job_ended_by_a_signal_has_the_exit_code_of_a_shell(services, tmp_path):
    sandbox = Sandbox(tmp_path, services)
    assert run_job(sandbox, "sh -c 'kill -9 $$'") == 128 + 9
    assert run_job(sandbox, "sh -c 'exit 3'") == 3


@pytest.mark.kill
@pytest.mark.parametrize(
    "ignoring", ["trap '' TERM; {}; wait", "(trap '' TERM; {}; wait) & wait"], ids=["self", "child"]
)
def test_a_service_that_ignores_sigterm_is_killed_with_its_children(ignoring):
    command = ["sh", "-c", ignoring.format("sleep 3600 & echo ready")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    stop_process_group(process, timeout=0.2)
    process.communicate(timeout=LIMIT_S)  # the pipe closes when the last process has ended


def test_the_health_check_uses_no_proxy(tmp_path):
    pages = ThreadingHTTPServer(("127.0.0.1", 0), SimpleHTTPRequestHandler)
    threading.Thread(target=pages.serve_forever, daemon=True).start()
    (tmp_path / "ulr-health").write_text(f"http://127.0.0.1:{pages.server_port}/")
    env = {"TMPDIR": str(tmp_path), "PATH": f"{os.defpath}:/usr/local/bin",
           "http_proxy": "http://127.0.0.1:9"}  # fmt: skip
    try:
        assert entrypoint("health", **env).returncode == 0
    finally:
        pages.shutdown()
        pages.server_close()
