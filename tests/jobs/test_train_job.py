"""`ulr train`: when a published model is trained again."""

from __future__ import annotations

from tests.support.clicked_pairs import publish_pairs
from ulr.cli.main import main

CHANGES = ["--set", "pairs.method=joint", "--set", "train.num_iterations=3",
           "--set", "train.validation_fraction=0.3"]  # fmt: skip


def test_a_model_is_not_trained_again_for_another_number_of_workers(tmp_path, monkeypatch, capsys):
    publish_pairs(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert main(["train", *CHANGES]) == 0
    assert main(["train", *CHANGES, "--set", "train.num_workers=2"]) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("train ")]
    first, second = lines[-2:]
    assert "documents" in first
    assert "unchanged, skipped" in second
    assert main(["train", *CHANGES, "--set", "train.num_workers=2", "--force"]) == 0
    assert "by 2 workers" in capsys.readouterr().out
