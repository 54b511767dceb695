"""A night on a simulated log: once, again, from the middle, and where something is missing."""

import json

import pytest
from jobs.test_jobs import tables

from ulr.cli import main
from ulr.lock import hold
from ulr.storage import Storage

FIRST, SECOND = ["--date", "2026-01-01"], ["--date", "2026-01-02"]


@pytest.fixture(scope="module")
def place(spark, tmp_path_factory):
    root = tmp_path_factory.mktemp("night")
    changes = {
        "warehouse.path": f"{root}/warehouse", "simulate.path": f"{root}/log",
        "simulate.queries": 60, "simulate.pages_per_day": 4000, "simulate.days": 2,
        "simulate.features": 8, "simulate.docs_per_query": 8, "simulate.positions": 4,
        "simulate.zipf": 0.2, "sessions.path": f"{root}/log/log",
        "features.path": f"{root}/log/features", "groups.partitions": 2, "pairs.partitions": 2,
        "pairs.test_share": 0.3, "evaluate.partitions": 2, "train.rounds": 4,
        "lightgbm.num_leaves": 4, "lightgbm.num_threads": 1, "mlflow.folder": f"{root}/mlflow",
        "promote.min_effective_sample_size": 10, "promote.diagnostics": "ignore",
    }  # fmt: skip
    flags = [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]
    assert main(["simulate", *flags]) == 0
    return root, flags


def summary(root, date="2026-01-01"):
    return json.loads((root / "warehouse" / "nights" / f"{date}.json").read_text())


def statuses(root, date="2026-01-01"):
    return [stage["status"] for stage in summary(root, date)["stages"]]


def test_a_night_promotes_and_the_same_night_again_does_nothing(place):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    assert statuses(root) == ["done"] * 6
    assert summary(root)["outcome"] == "promoted"
    before = tables(root / "warehouse")
    assert main(["nightly", *FIRST, *flags]) == 0
    assert statuses(root) == ["skipped"] * 6
    assert summary(root)["outcome"] == "champion"
    assert tables(root / "warehouse") == before


def test_the_next_night_has_a_window_of_two_days_and_a_verdict(place, capsys):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    assert main(["nightly", *SECOND, *flags]) == 0
    found = summary(root, "2026-01-02")
    assert found["outcome"] in ("promoted", "kept")
    assert "than the champion's" in found["stages"][-1]["words"]
    capsys.readouterr()
    assert main(["registry", "list", *flags]) == 0
    assert "2026-01-01..2026-01-02" in capsys.readouterr().out


def test_a_night_begins_where_it_is_told(place):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    assert main(["nightly", *FIRST, *flags, "--from-stage", "evaluate"]) == 0
    assert statuses(root)[:4] == ["not run"] * 4


def test_without_features_the_night_says_what_is_missing_and_keeps_what_it_has(place, capsys):
    root, flags = place
    bare = [*flags, "--set", "features.path=nowhere", "--set",
            f"warehouse.path={root}/bare"]  # fmt: skip
    assert main(["nightly", *FIRST, *bare]) == 2
    assert "no feature files at 'nowhere'" in capsys.readouterr().err
    found = json.loads((root / "bare" / "nights" / "2026-01-01.json").read_text())
    assert [s["status"] for s in found["stages"]][:3] == ["done", "done", "failed"]
    assert found["exit_code"] == 2


def test_two_nights_at_once_are_refused(place, capsys):
    root, flags = place
    with hold(Storage(f"{root}/warehouse"), "nights", "x"):
        assert main(["nightly", *FIRST, *flags]) == 2
    assert "this warehouse's night is being written by process" in capsys.readouterr().err


def test_a_day_kept_aside_needs_an_earlier_one(place, capsys):
    root, flags = place
    alone = [*flags, "--set", "evaluate.holdout=time", "--set", f"warehouse.path={root}/alone"]
    assert main(["nightly", *FIRST, *alone]) == 2
    assert "no groups before it" in capsys.readouterr().err


def test_a_rerun_reads_no_log_leaves_the_warehouse_alone_and_does_only_what_is_missing(
    place, capsys
):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    before = tables(root / "warehouse")
    command = ["rerun", "--from", "2026-01-01", "--to", "2026-01-01", *flags,
               "--set", "sessions.path=nowhere", "--name", "other"]  # fmt: skip
    assert main([*command, "--methods", "naive"]) == 0
    capsys.readouterr()
    assert main([*command, "--methods", "joint,naive"]) == 0
    out = capsys.readouterr().out
    assert "rerun pairs joint: done" in out
    assert "rerun pairs naive: unchanged, skipped" in out
    assert "train naive: unchanged, skipped" in out
    assert "joint - naive" in out
    after = tables(root / "warehouse")
    assert {name: after[name] for name in before} == before
    assert main(["rerun", "--from", "2026-01-01", "--to", "2026-01-01", *flags,
                 "--methods", "best"]) == 2  # fmt: skip
    assert "best is no method" in capsys.readouterr().err
