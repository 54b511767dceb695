from __future__ import annotations

import hashlib
import math
from collections import Counter
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from scipy.stats import chisquare

from ulr.config.load import load_settings
from ulr.config.simulation import Simulate
from ulr.errors import UserError
from ulr.experiments.buckets import parse_bucket, permutation
from ulr.simulate import stage
from ulr.simulate.presets import experiment_of
from ulr.simulate.stage import simulate_log
from ulr.simulate.tasks import times_of_day
from ulr.warehouse.storage import Storage

SMALL = [
    "simulate.days=2",
    "simulate.pages_per_day=3000",
    "simulate.pages_per_file=1000",
    "simulate.queries=1500",
    "simulate.docs_per_query=8",
    "simulate.features=8",
    "simulate.positions=5",
    "simulate.swaps=[{kind: single, fraction: 0.4}, {kind: pair, fraction: 0.2}]",
    "simulate.segments=[{name: desktop, fraction: 0.6, eta: 1}, "
    "{name: mobile, fraction: 0.4, eta: 2}]",
]


def small(path: Path, *changes: str) -> Simulate:
    return load_settings(None, [f"simulate.path={path}", *SMALL, *changes]).simulate


def digests(path: Path) -> dict[str, str]:
    return {
        str(f.relative_to(path)): hashlib.sha256(f.read_bytes()).hexdigest()
        for f in sorted(path.rglob("*.parquet"))
    }


@pytest.fixture(scope="module")
def simulated(engine, tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("simulated")
    simulate_log(engine, small(path))
    return path


def test_equal_seeds_give_equal_bytes_and_different_seeds_do_not(engine, simulated, tmp_path):
    simulate_log(engine, small(tmp_path / "a"))
    assert digests(tmp_path / "a") == digests(simulated)
    simulate_log(engine, small(tmp_path / "b", "simulate.seed=8"))
    other, first = digests(tmp_path / "b"), digests(simulated)
    assert other.keys() == first.keys()
    assert {name for name in first if other[name] == first[name]} == {"truth/examination.parquet"}


def test_a_simulation_with_the_same_settings_is_not_written_again(engine, simulated):
    before = {f: f.stat().st_mtime_ns for f in simulated.rglob("*.parquet")}
    again = simulate_log(engine, small(simulated))
    assert again["pages"] == 6000
    assert {f: f.stat().st_mtime_ns for f in simulated.rglob("*.parquet")} == before


def test_a_simulation_with_other_settings_replaces_the_old_one(engine, tmp_path):
    simulate_log(engine, small(tmp_path / "x"))
    simulate_log(engine, small(tmp_path / "x", "simulate.days=1"))
    assert [d.name for d in (tmp_path / "x" / "log").iterdir()] == ["dt=2026-01-01"]
    assert [d.name for d in tmp_path.iterdir()] == ["x"]


def test_files_of_an_older_simulation_on_an_object_store_are_removed(engine, tmp_path, monkeypatch):
    monkeypatch.setattr(Storage, "is_local", False)
    simulate_log(engine, small(tmp_path / "a"))
    changes = ["simulate.days=1", "simulate.pages_per_file=3000", "simulate.queries=900"]
    simulate_log(engine, small(tmp_path / "a", *changes))
    with monkeypatch.context() as broken:
        broken.setattr(stage, "examination_table", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            simulate_log(engine, small(tmp_path / "b"))
    simulate_log(engine, small(tmp_path / "b", *changes))
    assert digests(tmp_path / "a") == digests(tmp_path / "b")


def test_a_click_budget_shortens_every_date_and_gives_the_same_bytes(engine, tmp_path):
    changes = ["simulate.max_clicks=2000", "simulate.pages_per_day=30000"]
    counts = simulate_log(engine, small(tmp_path / "a", *changes))
    assert counts["clicks"] == pytest.approx(2000, abs=6 * np.sqrt(2000))
    dates = [pq.read_table(d).num_rows for d in sorted((tmp_path / "a" / "log").iterdir())]
    assert dates == [counts["pages"] // 2] * 2
    assert simulate_log(engine, small(tmp_path / "b", *changes)) == counts
    assert digests(tmp_path / "a") == digests(tmp_path / "b")
    assert stage.already_written(small(tmp_path / "a", *changes)) == counts


def test_a_click_budget_above_the_traffic_changes_nothing(engine, simulated, tmp_path):
    simulate_log(engine, small(tmp_path / "a", "simulate.max_clicks=1000000"))
    assert digests(tmp_path / "a") == digests(simulated)


def test_pages_are_evenly_spaced_over_the_day():
    for pages in (7, 20_000, 10**9):
        numbers = [0, 1, pages // 3, pages - 1]
        expected = [n * 86_400_000_000 // pages for n in numbers]
        assert times_of_day(np.array(numbers), pages).tolist() == expected


def test_a_folder_with_other_files_is_not_overwritten(engine, tmp_path):
    (tmp_path / "precious.txt").write_text("keep")
    with pytest.raises(UserError, match=r"simulate\.path"):
        simulate_log(engine, small(tmp_path))
    assert (tmp_path / "precious.txt").read_text() == "keep"


def test_pages_features_and_truth_are_consistent(simulated):
    log = pq.read_table(simulated / "log")
    features = pq.read_table(simulated / "features")
    known = set(zip(features["query_id"].to_pylist(), features["doc_id"].to_pylist(), strict=True))
    assert log.num_rows == 6000
    assert len(set(log["session_id"].to_pylist())) == 6000
    for row in log.slice(0, 500).to_pylist():
        assert str(row["shown_at"].date()) == str(row["dt"])
        assert {(row["query_id"], doc) for doc in row["doc_ids"]} <= known
    relevance = pq.read_table(simulated / "truth" / "relevance.parquet")
    assert relevance.num_rows == features.num_rows == 1500 * 8
    truth = pq.read_table(simulated / "truth" / "examination.parquet").to_pylist()
    theta = {(r["segment"], r["k"]): r["psi"] for r in truth if r["k"] == r["l"]}
    assert theta["mobile", 2] == pytest.approx(2.0**-2)
    assert theta["desktop", 2] == pytest.approx(2.0**-1)


def test_a_swapped_page_shows_the_permutation_of_an_unswapped_one(simulated):
    rows = pq.read_table(simulated / "log").to_pylist()
    plain = {r["query_id"]: r["doc_ids"] for r in rows if not r["swapped"]}
    checked = 0
    for row in rows:
        if row["swapped"] and row["query_id"] in plain:
            order = permutation(parse_bucket(row["bucket"]), 5)
            assert row["doc_ids"] == [plain[row["query_id"]][i] for i in order]
            checked += 1
    assert checked > 100


def test_shuffled_pages_are_in_uniformly_random_order(engine, tmp_path):
    swaps = "simulate.swaps=[{kind: shuffle, fraction: 0.5}, {bucket: 'shuffle:3', fraction: 0.3}]"
    simulate_log(engine, small(tmp_path, swaps, "simulate.queries=50"))
    rows = pq.read_table(tmp_path / "log").to_pylist()
    plain = {r["query_id"]: r["doc_ids"] for r in rows if r["bucket"] is None}
    for name, depth in (("shuffle", 5), ("shuffle:3", 3)):
        orders: Counter[tuple] = Counter()
        for row in rows:
            if row["bucket"] == name and row["query_id"] in plain:
                assert row["swapped"]
                orders[tuple(plain[row["query_id"]].index(d) for d in row["doc_ids"])] += 1
        assert all(order[depth:] == tuple(range(depth, 5)) for order in orders)
        places = np.zeros((depth, depth))
        for order, count in orders.items():
            places[np.arange(depth), order[:depth]] += count
        assert len(orders) == math.factorial(depth)
        assert chisquare(places, axis=1).pvalue.min() > 0.001


def test_the_experiments_get_their_fraction_of_the_traffic(simulated):
    log = pq.read_table(simulated / "log")
    share = 1 - log["bucket"].null_count / log.num_rows
    assert share == pytest.approx(0.6, abs=4 * np.sqrt(0.6 * 0.4 / 6000))
    swapped = log.filter(log["bucket"].is_valid())["swapped"].to_numpy(zero_copy_only=False)
    assert swapped.mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / swapped.size))


def test_the_buckets_of_a_family_share_its_traffic_evenly(tmp_path):
    experiment = experiment_of(small(tmp_path))
    singles = [b for b in experiment.buckets if "," not in b]
    pairs = [b for b in experiment.buckets if "," in b]
    assert singles == ["1:2", "1:3", "1:4", "1:5"]
    assert len(pairs) == 5 * 4 // 2 - 1  # every pair of positions but (1, 2) itself
    assert dict(zip(experiment.buckets, experiment.shares, strict=True)) == pytest.approx(
        dict.fromkeys(singles, 0.4 / 4) | dict.fromkeys(pairs, 0.2 / 9)
    )


def test_the_impression_layout_holds_the_same_pages(engine, simulated, tmp_path):
    simulate_log(engine, small(tmp_path, "simulate.layout=impression"))
    pages: dict[str, list] = {}
    for row in pq.read_table(tmp_path / "log").to_pylist():
        pages.setdefault(row["session_id"], []).append(
            (row["position"], row["doc_id"], row["clicked"])
        )
    for row in pq.read_table(simulated / "log").slice(0, 300).to_pylist():
        shown = list(zip(range(1, 6), row["doc_ids"], row["clicks"], strict=True))
        assert pages[row["session_id"]] == shown


def test_rankings_change_from_day_to_day_with_drift(engine, tmp_path):
    simulate_log(engine, small(tmp_path, "simulate.drift=1.0", "simulate.swaps=[]"))
    rankings: dict[str, set] = {}
    for row in pq.read_table(tmp_path / "log").to_pylist():
        rankings.setdefault(row["query_id"], set()).add((str(row["dt"]), tuple(row["doc_ids"])))
    both_days = [r for r in rankings.values() if len({day for day, _ in r}) == 2]
    assert both_days
    assert sum(len({docs for _, docs in r}) == 2 for r in both_days) > len(both_days) / 2


def test_clicks_of_binary_documents_follow_the_true_examination(engine, tmp_path):
    """Of two equally relevant documents the lower one is clicked theta times as often."""
    settings = small(
        tmp_path,
        "simulate.binarize=3",
        "simulate.relevance_noise=0",
        "simulate.swaps=[{kind: shuffle, fraction: 1}]",
        "simulate.segments=[]",
        "simulate.pages_per_day=20000",
        "simulate.zipf=0",
    )
    simulate_log(engine, settings)
    relevance = pq.read_table(tmp_path / "truth" / "relevance.parquet")
    assert set(relevance["relevance"].to_pylist()) == {0.0, 1.0}
    clicks = np.array(pq.read_table(tmp_path / "log")["clicks"].to_pylist()).sum(axis=0)
    truth = pq.read_table(tmp_path / "truth" / "examination.parquet").to_pylist()
    theta = np.array([row["psi"] for row in truth if row["k"] == row["l"]])
    expected = clicks.sum() * theta / theta.sum()
    assert np.abs(clicks - expected).max() < 5 * np.sqrt(clicks.max())


@pytest.mark.parametrize(
    "model", ["independent", "continuous", "row_skipping", "cascade", "single_choice"]
)
def test_every_browsing_model_can_be_chosen_by_name(engine, tmp_path, model):
    settings = small(
        tmp_path,
        f"simulate.examination.model={model}",
        "simulate.days=1",
        "simulate.clicks.trust=0.2",
    )
    assert simulate_log(engine, settings)["clicks"] > 0
