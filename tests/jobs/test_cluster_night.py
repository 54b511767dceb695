"""A night on a standalone cluster publishes the bytes of a night on one machine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.support.cluster import standalone_cluster, submit
from tests.support.engine_runs import file_hashes
from tests.support.registry_server import put_empty_database
from ulr.cli.main import main

pytestmark = [pytest.mark.cluster, pytest.mark.spark]

ROOT = Path(__file__).parents[2]
CHANGES = {
    "simulate.queries": 60, "simulate.pages_per_day": 4000, "simulate.days": 1,
    "simulate.features": 8, "simulate.docs_per_query": 8, "simulate.positions": 4,
    "simulate.pages_per_file": 1000, "simulate.zipf": 0.2, "groups.partitions": 2,
    "pairs.partitions": 2, "pairs.test_fraction": 0.3, "evaluate.partitions": 2,
    "train.num_iterations": 4, "train.num_workers": 2, "lightgbm.num_leaves": 4,
    "lightgbm.num_threads": 1, "mlflow.live": False, "promote.min_effective_clicks": 10,
    "promote.min_effective_queries": 10, "promote.diagnostics": "ignore",
    "spark.executor.memoryOverhead": "300m",
}  # fmt: skip


def flags_of(root):
    own = {
        "warehouse.path": f"{root}/warehouse", "simulate.path": f"{root.parent}/log",
        "log.path": f"{root.parent}/log/log", "features.path": f"{root.parent}/log/features",
        "mlflow.local_path": f"{root}/mlflow",
    }  # fmt: skip
    return [word for item in (CHANGES | own).items() for word in ("--set", "{}={}".format(*item))]


def summary(root):
    return json.loads((root / "warehouse" / "nights" / "2026-01-01.json").read_text())


def test_a_night_on_a_cluster_publishes_the_bytes_of_one_machine(tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    for root in (here, there):
        put_empty_database(root / "mlflow")
    assert main(["simulate", *flags_of(here)]) == 0
    assert main(["nightly", "--date", "2026-01-01", *flags_of(here)]) == 0
    machines = tmp_path / "machines"
    machines.mkdir()
    with standalone_cluster(machines, 2) as url:
        words = ["--conf", ROOT / "conf" / "cluster.yaml", "--date", "2026-01-01"]
        job = ROOT / "jobs" / "nightly.py"
        done = submit(url, job, *words, *flags_of(there), cwd=there)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "engine: spark (" in done.stdout
    assert "by 2 workers" in done.stdout
    assert file_hashes(there / "warehouse") == file_hashes(here / "warehouse")
    assert summary(here)["outcome"] == summary(there)["outcome"] == "promoted"
    # Tasks ran on both machines.
    executors = tmp_path.glob("machines/work*/app-*/*/stderr")
    assert len({path.parents[2].name for path in executors}) == 2
