"""A killed JVM or Python worker and a full disk are exit code 1, with a line that names them."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cluster import standalone_cluster
from tests.support.waiting import LIMIT_S, wait_until
from ulr.cli.main import main
from ulr.engine.failures import explain

pytestmark = [pytest.mark.all, pytest.mark.spark, pytest.mark.kill]
ROOT = Path(__file__).parents[2]
DATE = "2026-01-01"
# Mount a small file system at the first argument, in a namespace of its own.
SMALL_DISK = ["unshare", "--map-root-user", "--mount", "sh", "-c",
              'mount -t tmpfs -o size=$2 tmpfs "$1" && shift 2 && exec "$@"', "sh"]  # fmt: skip


def mounts() -> bool:
    if not shutil.which("unshare"):
        return False
    probe = [*SMALL_DISK, "/mnt", "1m", "true"]
    return subprocess.run(probe, check=False, capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def flags(tmp_path_factory) -> list[str]:
    """Write a log of one day; return the flags that name it."""
    root = tmp_path_factory.mktemp("log")
    changes = {
        "simulate.path": root, "simulate.days": 1, "simulate.pages_per_day": 4000,
        "simulate.queries": 200, "log.path": f"{root}/log", "groups.partitions": 2,
    }  # fmt: skip
    given = [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]
    assert main(["simulate", "--quiet", *given]) == 0
    return [*given, "--set", "engine=spark"]


@contextlib.contextmanager
def groups(*words: str, before: tuple[str, ...] = (), **env: str) -> Iterator[subprocess.Popen]:
    """Run `ulr groups` as a process; kill what is left of it in the end."""
    command = [*before, sys.executable, "-m", "ulr.cli", "groups", "--date", DATE, *words]
    process = subprocess.Popen(
        command, cwd=ROOT, env={**os.environ, **env}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    try:
        yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait(LIMIT_S)


def children(pid: int) -> list[tuple[int, str]]:
    """Return the process ids and command lines of all descendants."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            for child in map(int, task.read_text().split()):
                command = Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ")
                found += [(child, command.decode()), *children(child)]
    return found


def one_line(process: subprocess.Popen) -> str:
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 1, err
    lines = err.splitlines()
    assert len(lines) == 1, err
    assert json.loads(out) == {"error": lines[0].removeprefix("ulr: "), "exit_code": 1}
    return lines[0]


def test_a_killed_jvm_is_named_with_its_signal(flags, tmp_path):
    with groups(*flags, "--json", "--set", f"warehouse.path={tmp_path}/w") as process:

        def jvm() -> int | None:
            running = children(process.pid)
            if any("pyspark.daemon" in command for _, command in running):
                return next(pid for pid, command in running if "java" in command.split(" ")[0])
            return None

        wait_until(jvm, "no Spark task started")
        os.kill(jvm(), signal.SIGKILL)
        line = one_line(process)
    assert "the Spark JVM was ended by signal 9 (SIGKILL)" in line
    assert "run again" in line
    assert "see " in line


def test_a_python_worker_killed_in_a_task_is_named(spark):
    def kill(batches, number):
        os.kill(os.getpid(), number)
        yield from batches

    for number, words in [(signal.SIGKILL, "most likely by SIGKILL"),
                          (signal.SIGSEGV, "Segmentation fault")]:  # fmt: skip
        with pytest.raises(Exception, match="Python worker") as error:
            spark.range(2).mapInArrow(lambda b, n=number: kill(b, n), "id long").collect()
        known = explain(error.value)
        assert known.exit_code == 1
        assert str(known).startswith("a Python worker ")
        assert words in str(known)


@pytest.mark.parametrize("failure", [MemoryError, OSError(28, "No space left on device", "/d/x")])
def test_memory_and_disk_of_a_task_are_named(spark, failure):
    def fail(batches):
        raise failure

    with pytest.raises(Exception, match="worker") as error:
        spark.range(2).mapInArrow(fail, "id long").collect()
    known = explain(error.value)
    assert known.exit_code == 1
    words = "could not allocate memory" if failure is MemoryError else "a disk is full (No space"
    assert words in str(known)


@pytest.mark.skipif(not mounts(), reason="mounting a small disk needs namespaces")
@pytest.mark.parametrize("full", ["warehouse", "spark"])
def test_a_full_disk_is_exit_code_1_and_named(flags, tmp_path, full):
    disk = tmp_path / "disk"
    disk.mkdir()
    place = {"warehouse": disk if full == "warehouse" else tmp_path / "w"}
    env = {"spark": {"SPARK_LOCAL_DIRS": str(disk)}}
    size = {"warehouse": "16k", "spark": "160k"}[full]
    mount = (*SMALL_DISK, str(disk), size)
    warehouse = f"warehouse.path={place['warehouse']}/w"
    with groups(*flags, "--json", "--set", warehouse, before=mount, **env.get(full, {})) as process:
        line = one_line(process)
    assert "a disk is full" in line


LOST = """
import os, signal, time
from pathlib import Path
from ulr.config.load import load_settings
from ulr.engine.failures import explain
from ulr.engine.spark.session import start_session
settings = dict(load_settings(None).spark) | {
    "master": os.environ["MASTER_URL"], "executor.memory": "600m", "task.maxFailures": 1,
}
spark = start_session("test", settings)
def kill_executor(batches):
    daemon = Path(f"/proc/{os.getppid()}/stat").read_text()
    os.kill(int(daemon.rpartition(") ")[2].split()[1]), signal.SIGKILL)
    time.sleep(60)
    yield from batches
try:
    spark.range(1).mapInArrow(kill_executor, "id long").collect()
except Exception as error:
    print(explain(error))
"""


@pytest.mark.cluster
def test_a_killed_executor_is_named_with_its_signal(tmp_path):
    with standalone_cluster(tmp_path, 1) as url:
        env = {**os.environ, "MASTER_URL": url, "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            [sys.executable, "-c", LOST], env=env, capture_output=True, text=True, check=False
        )
    line = done.stdout.splitlines()[-1]
    assert line.startswith("executor 0 was lost: Command exited with code 137 (signal 9 (SIGKILL)")
