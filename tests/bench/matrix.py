"""A night, a training by two workers and the tests of logs and tables, on several Spark versions.

Every version has an environment in data/matrix, made on the first run. The first row has the lowest
versions that setup.py allows, of every library; its interpreter is python3.10 if there is one.

python -m tests.bench.matrix [VERSION ...]
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "data" / "matrix"
TESTS = (
    "tests/clicklog", "tests/conformance", "tests/engine/test_spark_ranks.py",
    "tests/engine/test_spark_versions.py", "tests/engine/test_tasks.py",
    "tests/features/test_source.py", "tests/ml",
)  # fmt: skip
TOOLS = ("pytest", "hypothesis", "duckdb")
DAY = "2026-01-01"
SIZES = {"simulate.days": 1, "simulate.pages_per_day": 20_000, "simulate.queries": 300,
         "train.num_iterations": 40}  # fmt: skip


class Row(NamedTuple):
    """An environment. lowest: the versions from which setup.py allows, not the locked ones."""

    spark: str
    lowest: bool = False


ROWS = (Row("3.5.8", lowest=True), Row("4.0.2"), Row("4.3.0"))
LOWEST_PYTHON = "3.10"


def main() -> int:
    """Print a Markdown table; return 1 if a version fails or has other model bytes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("versions", nargs="*", help="of Spark; default: all")
    chosen = parser.parse_args().versions
    results = [_run(row) for row in ROWS if not chosen or row.spark in chosen]
    heads = ("Spark", "Python", "numpy", "pandas", "pyarrow", "night", "tests", "model",
             "model of two workers")  # fmt: skip
    print(f"| {' | '.join(heads)} |\n{'|---' * len(heads)}|")
    for result in results:
        print(f"| {' | '.join(result)} |")
    models = {model for result in results for model in result[-2:]}
    broken = any(re.search("failed|error", result[-3]) for result in results)
    return int(len(models) > 1 or broken)


def _run(row: Row) -> list[str]:
    """Return the cells of one row of the table."""
    print(f"Spark {row.spark}", file=sys.stderr)
    python = _environment(row)
    versions = _output(python, "-c", _VERSIONS).split()
    home = FOLDER / f"night-{row.spark}"
    shutil.rmtree(home, ignore_errors=True)
    flags = [flag for key, value in _settings(home).items() for flag in ("--set", f"{key}={value}")]
    _output(python, "-m", "ulr.cli", "simulate", *flags)
    start = time.monotonic()
    _output(python, "-m", "ulr.cli", "nightly", "--date", DAY, *flags)
    seconds = time.monotonic() - start
    models = [_model(home)]
    _output(python, "-m", "ulr.cli", "train", "--force", "--set", "train.num_workers=2", *flags)
    models.append(_model(home))
    tests = _call(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", *TESTS).stdout
    print(*re.findall(r"^(?:FAILED|ERROR) .*", tests, re.M), sep="\n", file=sys.stderr)
    return [row.spark, *versions, f"{seconds:.0f} s", _summary(tests), *models]


def _settings(home: Path) -> dict[str, object]:
    log = home / "simulated"
    return {
        "engine": "spark",
        "warehouse.path": home / "warehouse", "mlflow.local_path": home / "mlflow",
        "simulate.path": log, "log.path": log / "log", "features.path": log / "features", **SIZES,
    }  # fmt: skip


def _environment(row: Row) -> str:
    """Return the interpreter of a row's environment; create it unless it is complete."""
    folder = FOLDER / f"spark-{row.spark}"
    python, ready = folder / "bin" / "python", folder / ".ready"
    if not ready.exists():
        interpreter = _lowest_python() if row.lowest else sys.executable
        subprocess.run([interpreter, "-m", "venv", "--clear", folder], check=True)
        pip = [python, "-m", "pip", "install", "-q"]
        subprocess.run([*pip, "wheel"], check=True)
        spark = "pyspark" if row.lowest else "pyspark[connect]"
        subprocess.run([*pip, f"{spark}=={row.spark}", *_wanted(row.lowest)], check=True)
        ready.touch()
    return str(python)


def _wanted(lowest: bool) -> list[str]:
    """Return the requirements of setup.py, at their lowest or their locked versions."""
    setup = (ROOT / "setup.py").read_text()
    required = setup.partition("install_requires=[")[2].partition("],")[0]
    floors = re.findall(r'"([\w-]+)>=([\d.]+)', required)
    lock = dict(re.findall(r"^([\w.-]+)==(\S+)", (ROOT / "requirements.lock").read_text(), re.M))
    return [f"{name}=={floor if lowest else lock[name]}" for name, floor in floors] + [*TOOLS]


def _lowest_python() -> str:
    """Return the lowest interpreter that setup.py allows, where there is one, else this one."""
    name = f"python{LOWEST_PYTHON}"
    folders = sorted(Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(
        f"versions/{LOWEST_PYTHON}.*/bin/{name}"))  # fmt: skip
    return next((p for p in (name, *map(str, folders)) if _works(p)), sys.executable)


def _works(python: str) -> bool:
    """Return whether this interpreter starts; a shim of pyenv may exist and not start."""
    try:
        return (
            subprocess.run([python, "--version"], capture_output=True, check=False).returncode == 0
        )
    except FileNotFoundError:
        return False


_VERSIONS = (
    "import platform, numpy, pandas, pyarrow; "
    "print(platform.python_version(), numpy.__version__, pandas.__version__, pyarrow.__version__)"
)


def _call(python: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    environ = os.environ | {"PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": python}
    environ.pop("SPARK_HOME", None)
    return subprocess.run(
        [python, *map(str, arguments)], cwd=ROOT, env=environ, capture_output=True, text=True,
        check=False,
    )  # fmt: skip


def _output(python: str, *arguments: str) -> str:
    process = _call(python, *arguments)
    if process.returncode:
        raise SystemExit(f"{' '.join(arguments[:4])}: exit code {process.returncode}\n"
                         f"{process.stdout[-2000:]}{process.stderr[-2000:]}")  # fmt: skip
    return process.stdout


def _model(home: Path) -> str:
    """Return the first digits of the SHA-256 of the newest published model."""
    newest = max(home.glob("warehouse/models/*/*/model.txt"), key=lambda p: p.stat().st_mtime_ns)
    return hashlib.sha256(newest.read_bytes()).hexdigest()[:12]


def _summary(output: str) -> str:
    found = re.search(r"((?:\d+ failed, )?\d+ passed[^\n]*?) in ", output)
    return found[1] if found else "failed: no summary"


if __name__ == "__main__":
    sys.exit(main())
