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


def test_without_pyspark_the_package_can_be_imported_and_a_stage_names_the_extra():
    """A notebook needs no Spark, and a cluster brings its own."""
    code = (
        "import sys; sys.modules['pyspark'] = None; import ulr; from ulr.cli.main import main; "
        "sys.exit(main(['groups', '--date', '2026-01-01']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False, text=True,
                          capture_output=True)  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.strip() == (
        "ulr: `ulr groups` needs Spark, and pyspark is not installed; run `pip install "
        "'ulr[spark]'`, or submit the job to a cluster"
    )
