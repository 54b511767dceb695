"""A Spark Connect server of the installed pyspark, a process of its own on loopback."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.support.cluster import JAVA_OPTIONS, LOOPBACK, SPARK_HOME, free_port
from tests.support.waiting import LIMIT_S, wait_until

ROOT = Path(__file__).resolve().parents[2]
SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"


@contextlib.contextmanager
def connect_server(folder: Path, cores: int) -> Iterator[str]:
    """Run a server with a local master and yield its URL. Its tasks import this `ulr`."""
    port, log = free_port(), folder / "server.log"
    conf = {
        "spark.connect.grpc.binding.address": LOOPBACK,
        "spark.connect.grpc.binding.port": port,
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": 2,
        "spark.ulr.workerTimeout": 30,
    }
    options = [word for item in conf.items() for word in ("--conf", "{}={}".format(*item))]
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", f"local[{cores}]",
               "--driver-memory", "1g", *options, "--class", SERVER, "spark-internal"]  # fmt: skip
    with log.open("wb") as output:
        server = subprocess.Popen(
            command, stdout=output, stderr=output, cwd=folder, env=_environment()
        )
        try:
            wait_until(
                lambda: _started(log, server), "the Spark Connect server did not start", limit_s=120
            )
            yield f"sc://{LOOPBACK}:{port}"
        finally:
            server.terminate()
            server.wait(LIMIT_S)


def run_client(url: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run tests.support.connect_client, which has no JVM."""
    command = [sys.executable, "-m", "tests.support.connect_client", url, *arguments]
    return subprocess.run(
        command, cwd=ROOT, env=_environment(), capture_output=True, text=True, timeout=LIMIT_S,
        check=False,
    )  # fmt: skip


def _started(log: Path, server: subprocess.Popen[bytes]) -> bool:
    if server.poll() is not None:
        raise RuntimeError(f"the Spark Connect server ended: {log.read_text()[-2000:]}")
    return "Spark Connect server started" in log.read_text()


def _environment() -> dict[str, str]:
    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    given = {"SPARK_LOCAL_IP": LOOPBACK, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": path}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("PYSPARK")}
    return {**kept, **given, "SPARK_HOME": str(SPARK_HOME)}
