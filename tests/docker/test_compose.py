"""docker/: what compose.yaml promises, and what the image's entrypoint does with each word."""

from __future__ import annotations

import os
import re
import subprocess
import threading
import time
from fnmatch import fnmatch
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from tests.support import services as runner

DOCKER = Path(__file__).parents[2] / "docker"
SECRETS = {"POSTGRES_PASSWORD": "p4ss", "SPARK_AUTH_SECRET": "s3cret"}


@pytest.fixture(scope="module")
def text():
    return (DOCKER / "compose.yaml").read_text()


@pytest.fixture(scope="module")
def services(text):
    return runner.read_compose(text, SECRETS)


def entrypoint(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.defpath, "ULR_HOME": str(DOCKER.parent), **environ}
    command = [str(DOCKER / "entrypoint"), *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


def test_a_master_two_workers_a_registry_on_its_database_and_the_job(services):
    commands = {name: service.get("command", [None])[0] for name, service in services.items()}
    assert commands == {
        "spark-master": "master", "spark-worker-1": "worker", "spark-worker-2": "worker",
        "postgres": None, "mlflow": "mlflow", "job": "nightly",
    }  # fmt: skip
    roles = set(re.findall(r"^  ([a-z]+)\)$", (DOCKER / "entrypoint").read_text(), re.M))
    stages = {path.stem for path in (DOCKER.parent / "jobs").glob("*.py")}
    assert {word for word in commands.values() if word} <= roles | stages
    assert not roles & stages


def test_every_port_is_on_loopback_unless_told_otherwise(services, text):
    ports = [port for service in services.values() for port in service.get("ports", [])]
    assert len(ports) == 2
    assert all(port.startswith("127.0.0.1:") for port in ports)
    open_to_all = runner.read_compose(text, SECRETS | {"ULR_BIND": "0.0.0.0"})
    assert open_to_all["mlflow"]["ports"] == ["0.0.0.0:5000:5000"]


def test_secrets_come_from_the_environment_and_nowhere_else(services, text):
    given = {
        (name, key): value
        for name, service in services.items()
        for key, value in service.get("environment", {}).items()
        if re.search("PASSWORD|SECRET|TOKEN", key)
    }
    assert set(given.values()) == set(SECRETS.values())
    assert len(given) == 6
    raw = yaml.safe_load(text)["services"]
    assert all(raw[name]["environment"][key].startswith("${") for name, key in given)


@pytest.mark.parametrize("missing", SECRETS)
def test_a_missing_secret_is_one_line_that_names_it(text, missing):
    rest = {name: value for name, value in SECRETS.items() if name != missing}
    with pytest.raises(runner.CannotStart, match=f"^{missing} is not set; set it to .*$"):
        runner.read_compose(text, rest)


def test_a_service_waits_until_what_it_needs_is_healthy(services):
    dockerfile = (DOCKER / "Dockerfile").read_text()
    for service in services.values():
        assert "healthcheck" in service or ("build" in service and "HEALTHCHECK" in dockerfile)
        waits = service.get("depends_on", {}).values()
        assert all(wait == {"condition": "service_healthy"} for wait in waits)
    order = runner.in_order(services)
    assert order.index("postgres") < order.index("mlflow")
    assert order.index("spark-master") < order.index("spark-worker-1")
    assert "job" not in order


def test_the_registry_lets_the_job_in_by_the_name_it_is_called(services):
    address = urlsplit(services["job"]["environment"]["MLFLOW_TRACKING_URI"]).netloc
    allowed = services["mlflow"]["environment"]["MLFLOW_SERVER_ALLOWED_HOSTS"].split(",")
    assert address in allowed
    assert "*" not in allowed


def test_models_and_tables_outlive_their_containers(services, text):
    volumes = yaml.safe_load(text)["volumes"]
    mounted = {v.split(":")[0] for s in services.values() for v in s.get("volumes", [])}
    assert volumes.keys() == mounted - {"./settings.yaml"}
    kept = services["mlflow"]["environment"]["MLFLOW_ARTIFACTS_DESTINATION"]
    assert services["mlflow"]["volumes"] == [f"artifacts:{kept}"]
    shared = {services[name]["volumes"][0] for name in ("spark-worker-1", "spark-worker-2", "job")}
    assert shared == {"data:/srv/ulr/data"}


def test_the_image_is_pinned_and_ends_as_a_user_without_tools():
    lines = (DOCKER / "Dockerfile").read_text().splitlines()
    assert re.search(r"^ARG BASE=\S+:bookworm-\d{8}-slim$", "\n".join(lines), re.M)
    final = lines[len(lines) - lines[::-1].index("FROM ${BASE}") :]
    (user,) = (line.split()[1] for line in final if line.startswith("USER "))
    assert any(f"useradd --uid {user} " in line for line in final)
    assert not [line for line in final if re.search(r"\b(pip|gcc|venv)\b", line)]


def test_what_the_image_copies_is_sent_to_the_builder():
    kept = [line[1:] for line in (DOCKER.parent / ".dockerignore").read_text().splitlines()
            if line.startswith("!")]  # fmt: skip
    for line in (DOCKER / "Dockerfile").read_text().splitlines():
        if line.startswith("COPY ") and "--from" not in line:
            for source in line.split()[1:-1]:
                assert (DOCKER.parent / source).exists()
                assert any(fnmatch(source, f"{name}*") for name in kept), source


@pytest.mark.parametrize(
    ("role", "name"), [("worker", "SPARK_MASTER_URL"), ("mlflow", "MLFLOW_BACKEND_STORE_URI")]
)
def test_a_role_without_its_setting_says_which(role, name, tmp_path):
    done = entrypoint(role, TMPDIR=str(tmp_path))
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"ulr-entrypoint: {name} is not set; ")


def test_a_stage_goes_to_the_cluster_if_there_is_one_and_sparks_secret_into_a_private_file(
    tmp_path,
):
    submit, alone = tmp_path / "bin" / "spark-submit", tmp_path / "ulr"
    submit.parent.mkdir()
    for program in (submit, alone):
        program.write_text('#!/bin/sh\necho "$(basename $0) $*"\n')
        program.chmod(0o755)
    env = {"TMPDIR": str(tmp_path), "HOME": str(tmp_path), "SPARK_HOME": str(tmp_path),
           "PATH": f"{tmp_path}:{os.defpath}"}  # fmt: skip
    told = ("plan-swaps", "--date", "2026-01-01")
    assert entrypoint(*told, **env).stdout == f"ulr {' '.join(told)}\n"
    url = {"SPARK_MASTER_URL": "spark://m:7077", "SPARK_AUTH_SECRET": "s3cret"}
    done = entrypoint(*told, **env, **url)
    assert done.stdout.startswith("spark-submit --master spark://m:7077")
    settings = f"--conf {DOCKER.parent}/conf/cluster.yaml"
    assert done.stdout.endswith(f"jobs/plan_swaps.py {settings} --date 2026-01-01\n")
    assert "s3cret" not in done.stdout
    defaults = tmp_path / "spark" / "spark-defaults.conf"
    assert "spark.authenticate.secret s3cret" in defaults.read_text()
    assert defaults.stat().st_mode & 0o077 == 0


def test_health_is_asked_of_the_role_that_runs(tmp_path):
    env = {"TMPDIR": str(tmp_path), "PATH": f"{os.defpath}:/usr/local/bin"}
    assert entrypoint("health", **env).returncode != 0  # nothing was started yet
    assert entrypoint("true", **env).returncode == 0
    assert entrypoint("health", **env).returncode == 0  # a job has no page to ask
    (tmp_path / "ulr-health").write_text("http://127.0.0.1:9/")
    assert entrypoint("health", **env).returncode == 1


def test_a_job_that_a_signal_ended_has_not_succeeded(services, tmp_path):
    place = runner.Place(tmp_path, services)
    place.path(runner.WORKDIR).mkdir(parents=True)
    assert runner.run_job(place, "sh -c 'kill -9 $$'") == 128 + 9
    assert runner.run_job(place, "sh -c 'exit 3'") == 3


@pytest.mark.parametrize("deaf", ["trap '' TERM; {}; wait", "(trap '' TERM; {}; wait) & wait"])
def test_a_service_that_does_not_listen_is_ended_with_its_children(deaf):
    command = ["sh", "-c", deaf.format("sleep 60 & echo ready")]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, start_new_session=True)
    process.stdout.readline()
    began = time.monotonic()
    runner.stop(process, patience=0.2)
    process.stdout.read()  # ends with the last of them
    assert time.monotonic() - began < 30


def test_health_does_not_ask_a_proxy_for_this_container(tmp_path):
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
