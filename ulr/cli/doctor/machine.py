"""The machine: engine, Java, Python, memory, disk."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path

from ulr.cli.doctor.checks import ERROR, OK, WARNING, Finding
from ulr.config.settings import Settings
from ulr.warehouse.storage import Storage

MIN_PYTHON = (3, 10)
_JAVA_OF_SPARK_3, _JAVA = 8, 17
GB = 2**30
LOW_DISK, NO_DISK, LOW_MEMORY = 10 * GB, 1 * GB, 2 * GB
_SIZES = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}  # Spark's; bare: MB
_CGROUP = Path("/sys/fs/cgroup")


def engine(kind: str, reason: str, settings: Settings) -> Finding:
    """Say which engine runs the stages and why; run a task of the local engine in a process."""
    message = f"{kind} ({reason})"
    if kind != "local":
        return Finding(OK, message)
    local = import_module("ulr.cli.engines").make_engine("doctor", settings)
    (answer,) = local.ranks(1, import_module("ulr.engine.local.ranks").greeting, timeout=60.0)
    count = local.parallelism
    memory = (
        settings.local.memory_fraction * import_module("ulr.engine.local.engine").memory_bytes()
    )
    return Finding(
        OK,
        f"{message}: {count} processes of Python {answer.decode()}; a window of at most "
        f"{memory / GB:.1f} GB compressed",
    )


def java() -> Finding:
    """Check the Java that Spark would start: in JAVA_HOME, else in PATH."""
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    fix = f"unset JAVA_HOME  # it is {home}" if home else ""
    try:
        ran = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(ERROR, f"cannot run {command}: {_reason(error)}", fix)
    match = re.search(r'version "(\d+)(?:\.(\d+))?', ran.stderr + ran.stdout)
    if match is None:
        return Finding(ERROR, f"{command} -version prints no version", fix)
    version = int(match[2] or 0) if match[1] == "1" else int(match[1])  # 1.8 is 8
    if version < (needed := _needed_java()):
        return Finding(ERROR, f"{command} is Java {version}; Spark needs {needed} or later", fix)
    return Finding(OK, f"Java {version} at {command}")


def _needed_java() -> int:
    with contextlib.suppress(ImportError):
        if import_module("pyspark").__version__.startswith("3."):
            return _JAVA_OF_SPARK_3
    return _JAVA


def python() -> Finding:
    """Check that the Python of Spark's workers has this version."""
    here = sys.version_info[:2]
    if here < MIN_PYTHON:
        return Finding(ERROR, f"Python {_dotted(here)}; needed: {_dotted(MIN_PYTHON)} or later")
    worker = os.environ.get("PYSPARK_PYTHON")
    if not worker:
        return Finding(OK, f"Python {_dotted(here)}, the same for Spark's workers")
    fix = f"export PYSPARK_PYTHON={sys.executable}"
    command = [worker, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    try:
        answer = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return Finding(ERROR, f"cannot run PYSPARK_PYTHON={worker}: {_reason(error)}", fix)
    if answer.stdout.strip() != _dotted(here):
        message = f"Python {_dotted(here)} here, {answer.stdout.strip()} in PYSPARK_PYTHON={worker}"
        return Finding(ERROR, message, fix)
    return Finding(OK, f"Python {_dotted(here)}, the same in PYSPARK_PYTHON={worker}")


def local_memory() -> Finding:
    """Check the free memory for the processes of the local engine."""
    free = free_memory()
    if free is None:
        return Finding(OK, "not known on this system")
    return Finding(WARNING if free < LOW_MEMORY else OK, f"{free / GB:.1f} GB free")


def memory(heap: str) -> Finding:
    """Compare free memory with Spark's heap; Arrow, numba and LightGBM need as much again."""
    heap_size, free = size_of(heap), free_memory()
    if free is None:
        return Finding(OK, f"not known on this system; spark.driver.memory = {heap}")
    message = f"{free / GB:.1f} GB free, spark.driver.memory = {heap}"
    fix = f"ulr doctor --set spark.driver.memory={free // 2 // 2**20}m"
    if free < heap_size:
        return Finding(ERROR, message, fix)
    if free < 2 * heap_size:
        return Finding(WARNING, f"{message}; Arrow, numba and LightGBM need as much again", fix)
    return Finding(OK, message)


def free_memory() -> int | None:
    """Return the bytes available without swapping, within the container's limit."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    try:
        limit, used, stat = ((_CGROUP / f"memory.{n}").read_text().strip()
                             for n in ("max", "current", "stat"))  # fmt: skip
    except OSError:
        return free
    if limit == "max":
        return free
    # The page cache counts as used, but is reclaimed on demand.
    cached = re.search(r"^inactive_file (\d+)$", stat, re.M)
    return min(free, int(limit) - int(used) + (int(cached[1]) if cached else 0))


def size_of(text: str) -> int:
    """Return the bytes of a size such as 4g or 512m, in Spark's notation."""
    match = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if match is None:
        raise ValueError(f"spark.driver.memory = {text!r}: expected a size such as 4g or 512m")
    return int(match[1]) * _SIZES[match[2]]


def local_disk(warehouse: str, scratch: str | None) -> Finding:
    """Check the free space of the warehouse and of the scratch folder (`local.scratch`)."""
    return _free_space(warehouse, {"the scratch folder": scratch or tempfile.gettempdir()})


def disk(warehouse: str, scratch: str | None = None) -> Finding:
    """Check the free space of the warehouse and of Spark's scratch folders (`spark.local.dir`)."""
    chosen = os.environ.get("SPARK_LOCAL_DIRS") or scratch or tempfile.gettempdir()
    folders = chosen.split(",")
    several = len(folders) > 1
    return _free_space(
        warehouse, {"Spark's scratch folder" + (f" {p}" if several else ""): p for p in folders}
    )


def _free_space(warehouse: str, places: dict[str, str]) -> Finding:
    if (storage := Storage(warehouse)).is_local:
        places["the warehouse"] = storage.root
    free = {name: shutil.disk_usage(_existing(Path(p))).free for name, p in places.items()}
    message = ", ".join(f"{size / GB:.1f} GB free for {place}" for place, size in free.items())
    least = min(free.values())
    return Finding(ERROR if least < NO_DISK else WARNING if least < LOW_DISK else OK, message)


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.parents) if p.exists())


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _reason(error: Exception) -> str:
    if isinstance(error, OSError):
        return (error.strerror or str(error)).lower()
    return str(error).partition("\n")[0]
