"""Slow libraries are imported by the commands that use them, and by no other."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SLOW = ("jinja2", "lightgbm", "mlflow", "numba", "pandas", "pyarrow", "pyspark", "scipy", "sklearn")


def imported_by(code: str) -> set[str]:
    report = f"import sys; {code}; print(*(name for name in {SLOW} if name in sys.modules))"
    done = subprocess.run([sys.executable, "-c", report], cwd=ROOT, check=True, text=True,
                          stdout=subprocess.PIPE)  # fmt: skip
    return set(done.stdout.splitlines()[-1].split())


def test_the_help_text_needs_no_slow_library():
    assert imported_by("from ulr.cli.main import main; main([])") == set()


@pytest.mark.parametrize("command", ["simulate", "groups", "propensities", "plan_swaps", "pairs"])
def test_stages_before_training_import_neither_lightgbm_nor_mlflow_nor_pyspark(command):
    imported = imported_by(f"import ulr.cli.commands.{command}")
    assert imported == {"numba", "pyarrow", "scipy"}


@pytest.mark.parametrize(
    ("engine", "message"),
    [
        ("auto", "no log files at 'data/simulated/log'; check log.path and --date"),
        (
            "spark",
            "engine = spark: pyspark is not installed; run `pip install 'ulr[spark]'`, submit the "
            "job to a cluster, or use files with engine = local",
        ),
    ],
)
def test_without_pyspark_a_stage_runs_and_the_engine_on_spark_names_the_extra(
    engine, message, tmp_path
):
    """A cluster brings its own."""
    code = (
        "import sys; sys.modules['pyspark'] = None; import ulr; from ulr.cli.main import main; "
        f"sys.exit(main(['groups', '--date', '2026-01-01', '--set', 'engine={engine}']))"
    )
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=False, text=True,
                          capture_output=True, env=env)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.strip() == f"ulr: {message}"
