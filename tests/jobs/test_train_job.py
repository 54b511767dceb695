from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.support.clicked_pairs import publish_pairs
from tests.support.cluster import standalone_cluster, submit
from ulr.cli.main import main

ROOT = Path(__file__).parent.parent.parent
CHANGES = [
    "--set", "pairs.method=joint", "--set", "train.num_iterations=15", "--set", "train.checkpoint_every=5",
    "--set", "train.early_stopping_round=5", "--set", "train.validation_fraction=0.3",
    "--set", "lightgbm.bagging_fraction=0.8", "--set", "lightgbm.bagging_freq=1",
]  # fmt: skip


def submit_train(url: str, folder: Path, *more: str) -> subprocess.CompletedProcess[str]:
    conf = ["--conf", str(ROOT / "conf" / "cluster.yaml")]
    small = ["--set", "spark.executor.memoryOverhead=300m"]
    return submit(url, ROOT / "jobs" / "train.py", *conf, *CHANGES, *small, *more, cwd=folder)


def model_files(folder: Path) -> tuple[bytes, dict]:
    (text,) = folder.rglob("model.txt")
    return text.read_bytes(), json.loads((text.parent / "record.json").read_text())


@pytest.mark.spark
def test_two_workers_of_a_standalone_cluster_train_the_model_of_one_machine(
    tmp_path, monkeypatch, spark
):
    cluster, alone = tmp_path / "cluster", tmp_path / "alone"
    for folder in (cluster, alone):
        publish_pairs(folder)
    with standalone_cluster(tmp_path) as url:
        done = submit_train(url, cluster, "--set", "train.num_workers=2")
        assert done.returncode == 0, done.stderr[-3000:]
        many = submit_train(url, cluster, "--set", "train.num_workers=3", "--force")
    assert "by 2 workers" in done.stdout
    assert many.returncode == 2
    assert (
        "num_workers = 3, but the cluster runs 2 tasks at once" in many.stdout
    )  # where spark-submit sends both
    monkeypatch.chdir(alone)
    assert main(["train", *CHANGES, "--set", "train.num_workers=1"]) == 0
    (text, record), (text_alone, record_alone) = model_files(cluster), model_files(alone)
    assert text == text_alone
    assert record["validation"] == record_alone["validation"]
    assert [worker["rank"] for worker in record["workers"]] == [0, 1]
    assert {"gradient", "trees", "network"} <= set(record["workers"][0]["seconds"])
    assert not list(cluster.rglob("checkpoints/**/*.json"))


@pytest.mark.spark
def test_a_model_is_not_trained_again_for_another_number_of_workers(
    tmp_path, monkeypatch, capsys, spark
):
    publish_pairs(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["train", *CHANGES]) == 0
    assert main(["train", *CHANGES, "--set", "train.num_workers=2"]) == 0
    first, second = capsys.readouterr().out.splitlines()[-2:]
    assert "documents" in first
    assert "unchanged, skipped" in second
    assert main(["train", *CHANGES, "--set", "train.num_workers=2", "--force"]) == 0
    assert "by 2 workers" in capsys.readouterr().out
