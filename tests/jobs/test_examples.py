"""The examples of the help texts, run one after another in an empty folder."""

from __future__ import annotations

import json

import pytest

from tests.support.help_examples import examples
from ulr.cli import main as cli

# Less data; all other settings are the defaults.
SMALL = {
    "simulate.pages_per_day": 4000, "simulate.queries": 80, "simulate.features": 8,
    "simulate.docs_per_query": 8, "simulate.positions": 4, "simulate.zipf": 0.2,
    "groups.partitions": 2, "pairs.partitions": 2, "evaluate.partitions": 2,
    "pairs.test_fraction": 0.3, "score.partitions": 2, "plan_swaps.positions": 4,
    "train.num_iterations": 3, "lightgbm.num_leaves": 4, "spark.driver.memory": "1g",
    "promote.min_effective_clicks": 10, "promote.min_effective_queries": 10,
    "promote.diagnostics": "ignore",
}  # fmt: skip
# Other tests run them: they train many models, or need a log that names rankers.
ELSEWHERE = {"rerun", "compare", "warm-up", "ab"}
FLAGS = [flag for key, value in SMALL.items() for flag in ("--set", f"{key}={value}")]


def examples_in_help(capsys, *argv: str) -> list[tuple[str, list[str]]]:
    with pytest.raises(SystemExit):
        cli.main([*argv, "--help"])
    return examples(capsys.readouterr().out)


def test_the_examples_succeed_in_the_order_of_the_stages(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    ran = []
    for stage in (stage for stage in cli.STAGES if stage not in ELSEWHERE):
        for command, argv in examples_in_help(capsys, stage):
            code = cli.main([command, *argv, *FLAGS, "--json"])
            out, err = capsys.readouterr()
            assert code == 0, err
            assert json.loads(out)  # one document, nothing else
            ran.append(command)
    assert {*ran, *ELSEWHERE} == cli.STAGES.keys()
