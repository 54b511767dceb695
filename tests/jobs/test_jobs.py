"""A job contains only the entry point of a command for spark-submit."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from ulr.cli.main import STAGES

JOBS = sorted((Path(__file__).parents[2] / "jobs").glob("*.py"))
WITHOUT_JOB = {"config", "registry", "tables", "warm-up"}  # no Spark, or only that of this machine
CODE = """\
import sys
from ulr.cli.main import main
if __name__ == '__main__':
    sys.exit(main(['{command}', *sys.argv[1:]]))"""


def command_of(job: Path) -> str:
    return job.stem.replace("_", "-")


def test_every_command_that_uses_spark_has_a_job():
    assert {command_of(job) for job in JOBS} == {*STAGES} - WITHOUT_JOB


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_the_docstring_of_a_job_is_its_spark_submit_line(job):
    title, line = ast.get_docstring(ast.parse(job.read_text())).split("\n\n")
    assert title == f"Run `ulr {command_of(job)}` under spark-submit."
    assert line.startswith(f"spark-submit --master yarn jobs/{job.name} --conf conf/cluster.yaml")


@pytest.mark.parametrize("job", JOBS, ids=lambda job: job.stem)
def test_a_job_imports_only_the_command_line_and_calls_its_command(job):
    tree = ast.parse(job.read_text())
    tree.body = tree.body[1:]  # without the docstring
    assert ast.unparse(tree).replace("\n\n", "\n") == CODE.format(command=command_of(job))
