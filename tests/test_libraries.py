"""Which rooms may import which library. The order of the rooms is in .importlinter."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "ulr"
ALLOWED = {
    "cryptography": ("training/distributed/seal",),
    "numba": ("kernels/",),
    "mlflow": ("registry/",),
    "rich": ("cli/",),
    "jinja2": ("report/",),
    "onnx": ("models/export/onnx_graph",),
    "lightgbm": ("training/", "models/", "propensity/regression_em"),
    "pyspark": ("engine/spark/", "ml/"),
}  # fmt: skip


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


@pytest.mark.parametrize("library", ALLOWED)
def test_a_library_is_imported_only_where_it_belongs(library):
    outside = []
    for path in ROOT.rglob("*.py"):
        name = path.relative_to(ROOT).with_suffix("").as_posix()
        if library in imported(path) and not name.startswith(ALLOWED[library]):
            outside.append(name)
    assert outside == []


def test_only_one_file_uses_barrier_task_contexts():
    users = [p.stem for p in ROOT.rglob("*.py") if "BarrierTaskContext" in p.read_text()]
    assert users == ["ranks"]


def test_the_serving_side_needs_nothing_but_the_standard_library_and_numpy():
    standard = {"__future__", "collections", "dataclasses", "functools", "hashlib", "itertools",
                "json", "numpy", "typing", "ulr", "math"}  # fmt: skip
    for path in (ROOT / "experiments").glob("*.py"):
        assert imported(path) <= standard, path.name
