"""A standalone Spark cluster on loopback: one master and several workers, each a process.

The processes run in a minimal environment, without the packages of this interpreter: an
application on the cluster can only use an interpreter that it brings along or names by its path.
"""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tests.support.waiting import LIMIT_S, wait_until

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
# Short-lived JVMs: compiling with C2 and parallel GC threads would take longer than they save.
JAVA_OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
APPLICATION = {
    "spark.driver.host": LOOPBACK,
    "spark.driver.bindAddress": LOOPBACK,
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.executor.cores": "1",
    "spark.executor.memory": "600m",
    "spark.ui.enabled": "false",
}


def minimal_environment(home: Path) -> dict[str, str]:
    """Return the variables of a machine with Java and Spark, and an empty home."""
    # The kernels of BLAS, which sum in another order on another type of processor, are one choice.
    own = {n: v for n, v in os.environ.items() if n == "JAVA_HOME" or n.startswith("OPENBLAS_")}
    return own | {
        "PATH": os.defpath,
        "HOME": str(home),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
    }


@contextlib.contextmanager
def standalone_cluster(folder: Path, workers: int) -> Iterator[str]:
    """Run a cluster and give the URL of its master. Each worker has one core.

    The executors of worker n write below `folder / "work{n}"`.
    """
    port, log = free_port(), folder / "master.log"
    url = f"spark://{LOOPBACK}:{port}"
    environment = minimal_environment(folder)
    host = ["--host", LOOPBACK, "--webui-port", "0"]
    with contextlib.ExitStack() as stack:
        master = ["master.Master", *host, "--port", str(port)]
        stack.enter_context(_daemon(master, log, environment))
        wait_until(lambda: "New state: ALIVE" in log.read_text(), "the master did not start")
        for n in range(workers):
            worker = ["worker.Worker", *host, "--cores", "1", "--memory", "1g",
                      "--work-dir", str(folder / f"work{n}"), url]  # fmt: skip
            stack.enter_context(_daemon(worker, folder / f"worker{n}.log", environment))
        wait_until(
            lambda: log.read_text().count("Registering worker") == workers,
            "the workers did not register",
        )
        yield url


def submit(url: str, job: Path, *args: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run a job with spark-submit and the interpreter of the tests."""
    conf = [word for item in APPLICATION.items() for word in ("--conf", "=".join(item))]
    command = [SPARK_HOME / "bin" / "spark-submit", "--master", url, *conf, job, *args]
    driver = {
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
    }
    return subprocess.run(
        list(map(str, command)), cwd=cwd, env=os.environ | driver, capture_output=True, text=True,
        timeout=2 * LIMIT_S, check=False,
    )  # fmt: skip


@contextlib.contextmanager
def _daemon(command: list[str], log: Path, environment: dict[str, str]) -> Iterator[None]:
    name, *arguments = command
    spark_class = [str(SPARK_HOME / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*spark_class, *arguments], stdout=output, stderr=output, env=environment
        )
        try:
            yield
        finally:
            process.terminate()
            process.wait(LIMIT_S)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind((LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port
