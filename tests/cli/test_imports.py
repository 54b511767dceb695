"""Slow libraries are imported by the commands that use them, and by no other."""

from __future__ import annotations

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
def test_stages_before_training_import_neither_lightgbm_nor_mlflow(command):
    imported = imported_by(f"import ulr.cli.commands.{command}")
    assert imported == {"numba", "pyarrow", "pyspark", "scipy"}
