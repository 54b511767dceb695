"""A real standalone Spark cluster on loopback: one master, some workers, each its own process."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark

HOME = Path(pyspark.__file__).parent
ENV = os.environ | {
    "SPARK_HOME": str(HOME),
    "SPARK_LOCAL_IP": "127.0.0.1",
    "PYSPARK_PYTHON": sys.executable,
}


@contextlib.contextmanager
def standalone_cluster(
    folder: Path, workers: int = 2, env: dict[str, str] | None = None
) -> Iterator[str]:
    """The master's URL, while the cluster lives. Each worker offers one core.

    env: of the cluster's processes, if not this one's.
    """
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    ui = _free_port()
    master = ["deploy.master.Master", "--host", "127.0.0.1", "--port", str(port),
              "--webui-port", str(ui)]  # fmt: skip
    worker = ["deploy.worker.Worker", "--host", "127.0.0.1", "--cores", "1", "--memory", "1g",
              "--webui-port", "0", "--work-dir"]  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.enter_context(_process(master, folder / "master.log", env or ENV))
        for n in range(workers):
            command = [*worker, str(folder / f"work{n}"), url]
            stack.enter_context(_process(command, folder / f"worker{n}.log", env or ENV))
        _wait_until(lambda: _registered(folder / "master.log") >= workers, 60)
        yield url


def submit(url: str, job: Path, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a job with spark-submit against the cluster."""
    command = [HOME / "bin" / "spark-submit", "--master", url, "--conf",
               "spark.executor.memory=600m", "--conf", "spark.driver.bindAddress=127.0.0.1",
               "--conf", "spark.driver.host=127.0.0.1", job, *args]  # fmt: skip
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=ENV, capture_output=True, text=True, timeout=300,
        check=False,
    )  # fmt: skip


@contextlib.contextmanager
def _process(spark_class: list[str], log: Path, env: dict[str, str]) -> Iterator[None]:
    command = [str(HOME / "bin" / "spark-class"), f"org.apache.spark.{spark_class[0]}"]
    with log.open("wb") as out:
        process = subprocess.Popen([*command, *spark_class[1:]], stdout=out, stderr=out, env=env)
        try:
            yield
        finally:
            process.terminate()
            process.wait(20)


def _registered(log: Path) -> int:
    return log.read_text().count("Registering worker")


def _free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _wait_until(condition, seconds: float) -> None:
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            raise TimeoutError("the cluster did not come up")
        time.sleep(0.2)
