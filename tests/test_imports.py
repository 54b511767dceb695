"""The direction law: jobs -> commands -> stages -> maths, and who may know which library."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
FILES = sorted((ROOT / "ulr").rglob("*.py"))

# Files and folders of `ulr` that know nothing of Spark.
MATHS = ("kernels", "arrow", "buckets", "contract", "histograms", "letor", "schema", "storage",
         "warehouse", "lock", "settings", "config", "errors", "dates", "logfiles",
         "simulate/browsing", "simulate/clicks", "simulate/layout", "simulate/presets",
         "simulate/randomness", "simulate/traffic", "simulate/truth", "simulate/world",
         "propensity/adjacent_chain", "propensity/affine", "propensity/arms",
         "propensity/browsing", "propensity/combined", "propensity/curve",
         "propensity/diagnostics", "propensity/estimators", "propensity/given",
         "propensity/graph", "propensity/harvesting", "propensity/joint",
         "propensity/least_squares", "propensity/ratios", "propensity/regression_em",
         "propensity/report", "propensity/segments", "propensity/single_swap",
         "propensity/tally", "serving", "swaps", "co_clicks", "masking",
         "pair_arrays", "pair_counts", "pair_grouping", "pair_rows", "pair_table", "weights",
         "weight_health", "examination", "featurefiles", "session_pairs", "training",
         "evaluation", "holdout", "night", "aside", "pace", "noise", "terminal",
         "doctor/found", "doctor/machine", "doctor/places", "report")  # fmt: skip
# Of those rooms, the files that bring training to Spark.
ON_SPARK = ("training/barrier", "training/distributed", "training/failures",
            "training/spread")  # fmt: skip


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def room(path: Path) -> str:
    return path.relative_to(ROOT / "ulr").with_suffix("").as_posix()


def is_maths(name: str) -> bool:
    return name not in ON_SPARK and any(name == m or name.startswith(f"{m}/") for m in MATHS)


@pytest.mark.parametrize("path", FILES, ids=room)
def test_imports_only_look_down(path):
    names = imports(path)
    own = {n for n in names if n.startswith("ulr.")}
    if not room(path).startswith(("commands", "cli")):
        assert not {n for n in own if n.startswith(("ulr.commands", "ulr.cli.main"))}
    if is_maths(room(path)):
        assert not {n for n in names if n.startswith("pyspark")}
        below = {n.removeprefix("ulr.").replace(".", "/") for n in own}
        modules = {n for n in below if (ROOT / "ulr" / f"{n}.py").exists()}
        assert all(is_maths(n) for n in modules)
    if not room(path).startswith("kernels"):
        assert not {n for n in names if n.split(".")[0] == "numba"}


def test_a_job_is_an_entry_point_and_nothing_more():
    for path in (ROOT / "jobs").glob("*.py"):
        assert len(path.read_text().splitlines()) <= 50
        assert "spark-submit" in (ast.get_docstring(ast.parse(path.read_text())) or "")
        assert {n for n in imports(path) if n.startswith("ulr")} == {"ulr.cli.main"}


def test_the_serving_side_can_take_the_buckets_file_alone():
    standard = {"__future__", "functools", "itertools", "typing"}
    assert {n.split(".")[0] for n in imports(ROOT / "ulr" / "buckets.py")} <= standard


def test_every_maths_room_exists():
    for name in MATHS:
        assert (ROOT / "ulr" / name).is_dir() or (ROOT / "ulr" / f"{name}.py").is_file()


def test_only_one_file_knows_barrier_tasks():
    knowing = [room(p) for p in FILES if "BarrierTaskContext" in p.read_text()]
    assert knowing == ["training/barrier"]


def test_only_training_imports_lightgbm():
    for path in FILES:
        if not room(path).startswith(("training", "propensity/regression_em")):
            assert not {n for n in imports(path) if n.split(".")[0] == "lightgbm"}, room(path)


def test_only_the_registry_imports_mlflow():
    for path in FILES:
        if not room(path).startswith("registry/"):
            assert not {n for n in imports(path) if n.split(".")[0] == "mlflow"}, room(path)
