"""The examples in docs/examples; a real Airflow is not installed here (docs/examples/README.md)."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ulr.errors import InvalidData, TemporaryFailure, UserError

DAG = Path(__file__).parents[1] / "docs" / "examples" / "airflow_nightly.py"


@pytest.fixture(scope="module")
def tree():
    return ast.parse(DAG.read_text())


def test_a_failed_night_is_retried_only_after_exit_code_1_or_a_killed_driver(tree):
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    (function,) = [node for node in functions if node.name == "may_succeed_again"]
    names: dict = {}
    exec(compile(ast.Module([function], []), DAG.name, "exec"), {"Any": object}, names)
    retried = names["may_succeed_again"]
    assert retried(None)
    assert retried({"exit_code": TemporaryFailure.exit_code, "error": "a disk is full"})
    assert retried({"exit_code": 143, "error": "interrupted"})
    assert not retried({"exit_code": UserError.exit_code})
    assert not retried({"exit_code": InvalidData.exit_code, "stages": []})


def test_the_dag_passes_the_date_and_the_place_of_the_result_and_fills_in_days(tree):
    text = ast.unparse(tree)
    assert "['--conf', CONF, '--date', date, '--result', result]" in text
    assert "catchup=True" in text
    assert "max_active_runs=1" in text
    assert "f'{JOBS}/nightly.py'" in text
    assert (DAG.parents[2] / "jobs" / "nightly.py").is_file()
