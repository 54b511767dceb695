from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tests.support.cluster import standalone_cluster, submit
from ulr.cli.main import main

ROOT = Path(__file__).parent.parent.parent

CHANGES = [
    "--set", "simulate.days=1", "--set", "simulate.pages_per_day=4000",
    "--set", "simulate.pages_per_file=1000", "--set", "simulate.queries=300",
    "--set", "simulate.features=8", "--set", "groups.partitions=3",
]  # fmt: skip


def tables(folder: Path) -> dict[str, str]:
    return {
        str(f.relative_to(folder).parent.parent / f.name): hashlib.sha256(
            f.read_bytes()
        ).hexdigest()
        for f in sorted(folder.rglob("*.parquet"))
    }


@pytest.mark.spark
def test_spark_submit_on_a_cluster_and_the_command_on_one_machine_write_the_same_bytes(
    tmp_path, monkeypatch, spark
):
    cluster, alone = tmp_path / "cluster", tmp_path / "alone"
    cluster.mkdir()
    alone.mkdir()
    with standalone_cluster(tmp_path) as url:
        for job, date in (("simulate", []), ("groups", ["--date", "2026-01-01"])):
            done = submit(
                url, ROOT / "jobs" / f"{job}.py", "--conf", str(ROOT / "conf" / "cluster.yaml"),
                *CHANGES, *date, "--set", "spark.executor.memoryOverhead=300m", cwd=cluster,
            )  # fmt: skip
            assert done.returncode == 0, done.stderr[-3000:]
    assert "4,000 pages" in done.stdout
    used = {p.parent.parent.parent.name for p in tmp_path.rglob("work*/app-*/*/stderr")}
    assert used == {"work0", "work1"}
    monkeypatch.chdir(alone)
    assert main(["simulate", *CHANGES]) == 0
    assert main(["groups", *CHANGES, "--date", "2026-01-01"]) == 0
    assert tables(cluster / "data") == tables(alone / "data")
    assert tables(alone / "data")
