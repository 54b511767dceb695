"""The machine: Java, Python, memory, disk."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from ulr.cli.doctor.found import ERROR, OK, WARNING, Found
from ulr.warehouse.storage import Storage

MIN_JAVA, MIN_PYTHON = 17, (3, 11)
GB = 2**30
LOW_DISK, NO_DISK = 10 * GB, 1 * GB
_SIZES = {"": 2**20, "k": 2**10, "m": 2**20, "g": 2**30, "t": 2**40}  # Spark's; bare: MB
_CGROUP = Path("/sys/fs/cgroup")


def java() -> Found:
    """The Java that Spark would start: JAVA_HOME's, else the first in PATH."""
    home = os.environ.get("JAVA_HOME")
    command = f"{home}/bin/java" if home else "java"
    mend = f"unset JAVA_HOME  # it is {home}" if home else ""
    try:
        ran = subprocess.run(
            [command, "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError) as why:
        return Found(ERROR, f"cannot run {command}: {_reason(why)}", mend)
    said = re.search(r'version "(\d+)(?:\.(\d+))?', ran.stderr + ran.stdout)
    if said is None:
        return Found(ERROR, f"{command} -version does not tell its version", mend)
    version = int(said[2] or 0) if said[1] == "1" else int(said[1])  # 1.8 is 8
    if version < MIN_JAVA:
        return Found(ERROR, f"{command} is Java {version}; Spark needs {MIN_JAVA} or later", mend)
    return Found(OK, f"Java {version} at {command}")


def python() -> Found:
    """This Python, and that Spark's workers have the same."""
    here = sys.version_info[:2]
    if here < MIN_PYTHON:
        return Found(ERROR, f"Python {_dotted(here)}; needed: {_dotted(MIN_PYTHON)} or later")
    worker = os.environ.get("PYSPARK_PYTHON")
    if not worker:
        return Found(OK, f"Python {_dotted(here)}, the same for Spark's workers")
    mend = f"export PYSPARK_PYTHON={sys.executable}"
    asked = [worker, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]
    try:
        there = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True)
    except (OSError, subprocess.SubprocessError) as why:
        return Found(ERROR, f"cannot run PYSPARK_PYTHON={worker}: {_reason(why)}", mend)
    if there.stdout.strip() != _dotted(here):
        message = f"Python {_dotted(here)} here, {there.stdout.strip()} in PYSPARK_PYTHON={worker}"
        return Found(ERROR, message, mend)
    return Found(OK, f"Python {_dotted(here)}, the same in PYSPARK_PYTHON={worker}")


def memory(heap: str) -> Found:
    """Free memory against Spark's heap; Arrow, numba and LightGBM want as much beside it."""
    wanted, free = size_of(heap), free_memory()
    if free is None:
        return Found(OK, f"not known on this system; spark.driver.memory = {heap}")
    message = f"{free / GB:.1f} GB free, spark.driver.memory = {heap}"
    mend = f"ulr doctor --set spark.driver.memory={free // 2 // 2**20}m"
    if free < wanted:
        return Found(ERROR, message, mend)
    if free < 2 * wanted:
        return Found(WARNING, f"{message}, and as much is wanted beside it", mend)
    return Found(OK, message)


def free_memory() -> int | None:
    """Bytes that can be had without swapping, within the container's limit."""
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
    # Files that were read count as used until somebody needs the room.
    cached = re.search(r"^inactive_file (\d+)$", stat, re.M)
    return min(free, int(limit) - int(used) + (int(cached[1]) if cached else 0))


def size_of(text: str) -> int:
    """Bytes of 4g, 512m, as Spark writes sizes."""
    found = re.fullmatch(r"(\d+)([kmgt]?)b?", text.strip().lower())
    if found is None:
        raise ValueError(f"spark.driver.memory = {text!r}: expected a size such as 4g or 512m")
    return int(found[1]) * _SIZES[found[2]]


def disk(warehouse: str, scratch: str | None = None) -> Found:
    """Room for the warehouse and for what Spark shuffles. scratch: as `spark.local.dir` says."""
    chosen = os.environ.get("SPARK_LOCAL_DIRS") or scratch or tempfile.gettempdir()
    folders = chosen.split(",")
    many = len(folders) > 1
    places = {"Spark's scratch folder" + (f" {p}" if many else ""): p for p in folders}
    if (storage := Storage(warehouse)).is_local:
        places["the warehouse"] = storage.root
    free = {name: shutil.disk_usage(_existing(Path(p))).free for name, p in places.items()}
    message = ", ".join(f"{size / GB:.1f} GB free for {place}" for place, size in free.items())
    least = min(free.values())
    return Found(ERROR if least < NO_DISK else WARNING if least < LOW_DISK else OK, message)


def _existing(path: Path) -> Path:
    return next(p for p in (path, *path.parents) if p.exists())


def _dotted(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))


def _reason(why: Exception) -> str:
    if isinstance(why, OSError):
        return (why.strerror or str(why)).lower()
    return str(why).partition("\n")[0]
