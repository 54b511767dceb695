"""Graded feedback from a simulated log with known truth to a model, its metrics and its report."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.support.registry_server import put_empty_database
from ulr.cli.main import main
from ulr.groups.levels import window_levels
from ulr.warehouse.tables import Warehouse

CHANCES = {"add_to_cart": 0.6, "purchase": 0.3}
GAINS = {"click": 1, "add_to_cart": 3, "purchase": 10}
EVENTS = ("click", "add_to_cart", "purchase")


@pytest.fixture(scope="module")
def flags(tmp_path_factory):
    """Simulate two dates, of which the first has clicks only; run the stages of a night."""
    root = tmp_path_factory.mktemp("feedback")
    changes = {
        "warehouse.path": f"{root}/warehouse", "simulate.path": f"{root}/log",
        "simulate.queries": 60, "simulate.pages_per_day": 30000, "simulate.days": 2,
        "simulate.features": 8, "simulate.docs_per_query": 8, "simulate.positions": 4,
        "simulate.zipf": 0.2, "simulate.feedback": str(CHANCES), "simulate.drift": 0.3,
        "simulate.swaps": "[{kind: single, fraction: 0.9}]",
        "log.path": f"{root}/log/log", "features.path": f"{root}/log/features",
        "groups.partitions": 2, "pairs.partitions": 2, "train.num_iterations": 5,
        "lightgbm.min_sum_hessian_in_leaf": 0.1, "lightgbm.num_leaves": 4,
        "lightgbm.num_threads": 1, "mlflow.local_path": f"{root}/mlruns", "mlflow.live": False,
        "pairs.test_fraction": 0.3, "pairs.method": "joint",
    }  # fmt: skip
    own = [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]
    graded = [*own, "--set", f"log.feedback={GAINS}"]
    put_empty_database(root / "mlruns")
    assert main(["simulate", *own]) == 0
    assert main(["groups", "--date", "2026-01-01", *own]) == 0
    assert main(["nightly", "--date", "2026-01-02", *graded]) in (0, 4)
    return root, graded


def pages(root, date):
    return pq.read_table(root / "log" / "log" / f"dt={date}").to_pylist()


def test_events_are_nested_in_clicks_and_as_frequent_as_the_truth_says(flags):
    root, _ = flags
    truth = pq.read_table(root / "log" / "truth" / "relevance.parquet").to_pylist()
    relevance = {(row["query_id"], row["doc_id"]): row["relevance"] for row in truth}
    expected, variance, seen = np.zeros(2), np.zeros(2), np.zeros(2)
    for page in pages(root, "2026-01-02"):
        for doc, click, event in zip(
            page["doc_ids"], page["clicks"], page["feedback"], strict=True
        ):
            assert click or event is None
            if click:
                p = relevance[page["query_id"], doc] * np.array(list(CHANCES.values()))
                expected, variance = expected + p, variance + p * (1 - p)
                seen += [event is not None, event == "purchase"]
    assert (np.abs(seen - expected) < 4 * np.sqrt(variance)).all()


def test_a_window_with_a_date_of_clicks_has_the_levels_of_the_other(flags):
    root, _ = flags
    warehouse = Warehouse(str(root / "warehouse"))
    dates = [f"2026-01-0{n}" for n in (1, 2)]
    assert window_levels(warehouse, dates) == EVENTS
    assert warehouse.require("groups", "dt=2026-01-01").settings.get("levels") is None


def test_every_level_has_a_curve_that_covers_the_truth_and_counts_its_events(flags):
    root, _ = flags
    rows = Warehouse(str(root / "warehouse")).read("level_propensities").to_pylist()
    counts = dict.fromkeys(EVENTS, 0)
    for date in ("2026-01-01", "2026-01-02"):
        for page in pages(root, date):
            counts["click"] += sum(page["clicks"])
            if date == "2026-01-02":
                counts["add_to_cart"] += sum(e is not None for e in page["feedback"])
                counts["purchase"] += page["feedback"].count("purchase")
    assert {row["event"]: row["events"] for row in rows} == counts
    for row in rows:
        if row["position"] > 1:
            z = np.log(row["theta"] * row["position"]) / (row["standard_error"] / row["theta"])
            assert abs(z) < 4, row


def test_a_rerun_with_other_gains_reads_no_log_and_changes_the_pairs(flags, capsys):
    root, graded = flags
    warehouse = Warehouse(str(root / "warehouse"))
    assert warehouse.require("pairs", "method=joint").inputs["increments"] == [1.0, 2.0, 7.0]
    stage = ["pairs", "--date", "2026-01-01..2026-01-02", *graded, "--set", "log.path=expired"]
    assert main([*stage, "--set", "log.feedback={click: 1, purchase: 5, add_to_cart: 4}"]) == 0
    assert warehouse.require("pairs", "method=joint").inputs["increments"] == [1.0, 3.0, 1.0]
    capsys.readouterr()
    assert main([*stage, "--set", "log.feedback={gift: 20}"]) == 2
    assert "log.feedback has the event gift" in capsys.readouterr().err


def test_the_report_shows_the_curve_of_every_level(flags):
    root, _ = flags
    (page,) = (root / "warehouse").rglob("2026-*.html")
    text = page.read_text()
    assert "Levels of feedback" in text
    for event in EVENTS:
        assert event in text
