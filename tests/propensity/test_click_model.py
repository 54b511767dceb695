"""From groups to the click model: trust bias, users who stop, and what is published of them."""

import datetime as dt

import numpy as np
import pytest

from tests.support.random_groups import publish, write_files
from tests.support.session_groups import group
from ulr.config.load import load_settings
from ulr.experiments.buckets import parse_bucket, permutation
from ulr.pairs.config import make_pair_config
from ulr.propensity.examination import load_examination
from ulr.propensity.rankings import RankingTally
from ulr.propensity.stage import build_propensities
from ulr.propensity.tasks import GroupFiles, count_rankings
from ulr.simulate.browsing import Cascade, Continuous, power_curve
from ulr.simulate.clicks import ClickModel, relevance_of, trust_curve
from ulr.warehouse.tables import Warehouse

K, DATES = 5, [dt.date(2026, 1, 1)]
BUCKETS = [f"1:{k}" for k in range(2, K + 1)]
PHI, BETA = 0.5, 0.9
CURVE = power_curve(K, 0.7)


def rows_of(browsing, *, trust=0.0, queries=250, pages=60, seed=3):
    """Groups of every query in every arm of every bucket."""
    rng = np.random.default_rng(seed)
    positive = np.full(K, 0.95 if trust else 1.0)
    model = ClickModel(browsing, positive, trust_curve(K, 0.0, trust))
    relevance = relevance_of(rng.integers(0, 5, (queries, K)), 4, 0.1)
    rows = []
    for q in range(queries):
        for name in BUCKETS:
            for swapped in (False, True):
                order = permutation(parse_bucket(name), K) if swapped else list(range(K))
                shown = np.broadcast_to(relevance[q][order], (pages, K))
                clicks = model.draw(rng, shown).astype(int).tolist()
                row = group(clicks, query=f"q{q}", bucket=name, swapped=swapped)
                rows.append(row | {"doc_ids": [f"d{d}" for d in order], "ranking": len(rows)})
    return rows


def results_of(engine, folder, rows, *changes):
    house = Warehouse(str(folder))
    publish(house, DATES[0], rows)
    settings = load_settings(None, list(changes)).propensities
    outcome = build_propensities(engine, house, DATES, settings)
    return house, outcome.results[0]


@pytest.fixture(scope="module")
def stopping():
    return rows_of(Cascade(PHI, BETA))


def test_users_who_stop_are_found_published_and_corrected_for(engine, stopping, tmp_path):
    house, result = results_of(engine, tmp_path, stopping)
    assert result.clicks.click_model == "cascade"
    found = {f.check: f for f in result.findings}["stops_after_click"]
    assert found.verdict == "note"
    assert "users stop after clicks: phi = 0." in found.message
    assert not [f for f in result.findings if f.check == "untouched" and f.verdict != "ok"]
    known, _ = load_examination("warehouse", house)
    assert known.click_model == "cascade"
    assert known.stop_probability == pytest.approx(PHI, abs=0.03)
    assert known.continue_probability == pytest.approx(BETA, abs=0.03)
    config = make_pair_config("auto", known)
    assert config.weightings[0].label == "joint with precision"
    # The last candidate, and the validation loss.
    assert [w.method for w in config.weightings[-2:]] == ["cascade", "cascade"]
    assert config.stopping.reach[0, 2] == pytest.approx(known.continue_probability**2)


def test_trust_bias_is_corrected_with_kappa(engine, tmp_path):
    rows = rows_of(Continuous(CURVE), trust=0.3)
    settings = ("propensities.estimator=affine", "propensities.beta_1=0.3")
    house, result = results_of(engine, tmp_path, rows, *settings)
    assert result.clicks.click_model == "affine"
    assert result.clicks.stopping is None
    known, _ = load_examination("warehouse", house)
    assert known.stop_probability is None
    k, v = np.triu_indices(known.depth, 1)
    np.testing.assert_allclose(known.kappa[k, v], 1 / CURVE[k], rtol=0.1)
    config = make_pair_config("auto", known)
    assert config.all_pairs
    assert [w.method for w in config.weightings[-2:]] == ["affine", "affine"]


def test_trust_bias_without_alpha_and_beta_changes_no_candidate(engine, tmp_path):
    house, result = results_of(engine, tmp_path, rows_of(Continuous(CURVE), trust=0.3))
    assert "note" in {f.verdict for f in result.findings if f.check == "intercept"}
    assert result.clicks.kappa is not None
    known, _ = load_examination("warehouse", house)
    assert known.click_model == ""
    methods = {w.method for w in make_pair_config("auto", known).weightings}
    assert not methods & {"affine", "cascade"}


def test_without_findings_there_is_no_pass_over_the_groups(engine, tmp_path, monkeypatch):
    monkeypatch.setattr("ulr.propensity.tasks.count_rankings", lambda *_, **__: pytest.fail("pass"))
    house, result = results_of(engine, tmp_path, rows_of(Continuous(CURVE)))
    assert result.clicks.kappa is result.clicks.stopping is None
    known, _ = load_examination("warehouse", house)
    assert (known.click_model, known.kappa, known.stop_probability) == ("", None, None)


def test_segments_take_the_click_model_of_all_traffic(engine, stopping, tmp_path):
    rows = [row | {"segment": ("a", "b")[i // 2 % 2]} for i, row in enumerate(stopping)]
    house, _ = results_of(engine, tmp_path, rows)
    known, segments = load_examination("warehouse", house)
    assert set(segments) == {"a", "b"}
    for own in segments.values():
        assert own.click_model == "cascade"
        assert own.stop_probability == known.stop_probability
    findings = house.read("diagnostics").to_pylist()
    assert [f["segment"] for f in findings if f["check"] == "stops_after_click"] == [None]


def test_sums_of_workers_equal_those_of_this_process(engine, pool, stopping, tmp_path):
    files = write_files(tmp_path, stopping[:200], parts=3)
    groups = GroupFiles(str(tmp_path), [(0, file) for file in files])
    tally = RankingTally(K, 4, BUCKETS)
    here, there = count_rankings(engine, groups, tally), count_rankings(pool, groups, tally)
    for a, b in zip(here, there, strict=True):
        np.testing.assert_array_equal(a, b)
    assert here.pairs.any()
    assert here.clicks.any()
    cut = count_rankings(pool, groups, RankingTally(3, 4, BUCKETS[:2]))
    np.testing.assert_array_equal(cut.pairs, here.pairs[:, :3, :3])
    np.testing.assert_array_equal(cut.clicks, here.clicks[:4])
