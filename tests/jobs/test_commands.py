"""Commands as a user types them, on a small simulated log."""

from __future__ import annotations

import json
from collections import Counter

import pyarrow.parquet as pq
import pytest

from tests.support.strategies import SHOWN, as_batch
from ulr.cli.main import main
from ulr.clicklog.contract import check_pages
from ulr.experiments.serving import arrange, assign, load_plan
from ulr.experiments.vectors import make_vectors
from ulr.warehouse.schema import diagnostics_schema
from ulr.warehouse.tables import Warehouse

CHANGES = [
    "--set", "simulate.days=2", "--set", "simulate.pages_per_day=15000",
    "--set", "simulate.queries=300", "--set", "simulate.features=8",
    "--set", "simulate.positions=4", "--set", "groups.partitions=2",
    "--set", "plan_swaps.positions=4", "--set", "spark.sql.shuffle.partitions=2",
]  # fmt: skip


def ulr(*argv: str) -> int:
    return main([*argv, *CHANGES])


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """Yield a working folder with two days of groups."""
    folder = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        assert ulr("simulate") == 0
        assert ulr("groups", "--date", "2026-01-01..2026-01-02") == 0
        yield folder


def test_propensities_are_published_printed_drawn_and_written_as_json(home, capsys):
    truth = "data/simulated/truth/examination.parquet"
    files = ["--figure", "theta.svg", "--truth", truth]
    assert ulr("propensities", "--date", "2026-01-02", *files) == 0
    assert "4 positions (4 estimated)" in capsys.readouterr().out
    assert (home / "theta.svg").read_text().startswith("<svg ")
    tables = Warehouse("data/warehouse")
    (diagnostics,) = tables.files("diagnostics")
    assert pq.read_schema(diagnostics).equals(diagnostics_schema)
    assert ulr("propensities", "--date", "2026-01-02") == 0
    assert "unchanged, skipped" in capsys.readouterr().out
    assert ulr("propensities", "--date", "2026-01-02", "--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert [row["position"] for row in document["segments"][0]["curve"]] == [1, 2, 3, 4]


def test_two_days_of_one_simulation_show_no_drift(home, capsys):
    drift = ["--drift", "2026-01-01..2026-01-01", "--force"]
    assert ulr("propensities", "--date", "2026-01-02..2026-01-02", *drift) == 0
    lines = [line for line in capsys.readouterr().out.splitlines() if " drift " in line]
    assert lines
    assert all("drift ok" in line for line in lines)


def test_pages_served_by_a_plan_satisfy_the_contract_of_the_log(home, capsys):
    assert ulr("plan-swaps", "--date", "2026-01-02", "--out", "plan.json") == 0
    assert "clicks lost a day" in capsys.readouterr().out
    text = (home / "plan.json").read_text()
    plan = load_plan(text)
    assert json.loads(text)["test_vectors"] == make_vectors(plan)
    documents = ["a", "b", "c", "d"]
    pages = []
    for request in range(20_000):
        assignment = assign(f"r{request}", plan, len(documents))
        pages.append({
            "session_id": f"r{request}", "query_id": "q", "shown_at": SHOWN,
            "doc_ids": arrange(documents, assignment), "clicks": [False] * 4, "segment": None,
            "bucket": assignment.bucket, "swapped": assignment.swapped,
        })  # fmt: skip
    assert check_pages(as_batch(pages)).bad.size == 0
    served = Counter(page["bucket"] for page in pages if page["bucket"])
    assert served.keys() == {name for name, _ in plan.buckets}


def test_compare_prints_a_table_with_auto_above_naive(home, capsys):
    small = ["--set", "train.num_iterations=60", "--set", "lightgbm.learning_rate=0.15",
            "--set", "compare.methods=[auto]"]  # fmt: skip
    assert ulr("propensities", "--date", "2026-01-02") == 0
    assert ulr("compare", "--date", "2026-01-01..2026-01-02", *small) == 0
    page = (home / "data/warehouse/reports/compare-2026-01-01..2026-01-02.html").read_text()
    assert "of the way from naive clicks to golden labels" in page
    lines = capsys.readouterr().out.splitlines()
    order = [m for line in lines for m in ("labels", "auto", "naive") if line.startswith(f"{m} ")]
    assert sorted(order) == ["auto", "labels", "naive"]
    assert order[-1] == "naive"
