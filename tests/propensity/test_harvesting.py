from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from tests.support import propensity_loops as loops
from ulr.propensity.curve_checks import drift_findings
from ulr.propensity.harvesting import all_pairs, harvested_curve
from ulr.propensity.schema import harvest_schema

POSITIONS = 6
THETA = np.arange(1, POSITIONS + 1) ** -0.8


def simulate(rng, documents, theta, *, reach=2, shows=30):
    """Documents that were shown at a few neighbouring positions each."""
    seen = {}
    for d in range(documents):
        start = rng.integers(1, len(theta) - reach + 2)
        relevance = rng.uniform(0.1, 0.9)
        seen[f"q{d % 97}", d] = {
            int(k): (int(rng.binomial(n, theta[k - 1] * relevance)), int(n))
            for k, n in zip(range(start, start + reach), rng.integers(1, shows, reach), strict=True)
        }
    return seen


def table_of(seen, *, weight="pooled", blocks=16):
    rows = []
    for block in range(blocks):
        part = {k: w for k, w in seen.items() if hash(k[1]) % blocks == block}
        for (k, v), (clicks, impressions) in loops.harvest_pairs(part, weight).items():
            row = {"segment": None, "block": block, "k": k, "l": v, "clicks": clicks}
            rows.append(row | {"impressions": impressions, "documents": len(part)})
    return pa.Table.from_pylist(rows, schema=harvest_schema)


@pytest.mark.parametrize("form", ["all_pairs", "adjacent", "pivot"])
@pytest.mark.parametrize("weight", ["pooled", "document"])
def test_every_form_recovers_a_known_curve(form, weight):
    seen = simulate(np.random.default_rng(1), 6000, THETA, reach=POSITIONS)
    table = table_of(seen, weight=weight)
    curve = harvested_curve(table, POSITIONS, form=form, min_clicks=50)
    np.testing.assert_allclose(curve.theta, THETA / THETA[0], rtol=0.06)


def test_all_pairs_recovers_theta_from_exact_shares():
    theta = THETA / THETA[0]
    relevance = np.arange(1.0, 37.0).reshape(6, 6)
    clicks = theta[:, None] * (relevance + relevance.T)
    np.fill_diagonal(clicks, 0)
    np.testing.assert_allclose(all_pairs(clicks), theta, rtol=1e-6)


@pytest.mark.parametrize("positions", [10, 50])
def test_all_pairs_converges_on_a_long_chain_of_neighbours(positions):
    """Coordinate steps were 56% off at the end of 50 positions when they stopped."""
    theta = np.arange(1, positions + 1) ** -0.8
    clicks = 1000 * theta[:, None] * (np.eye(positions, k=1) + np.eye(positions, k=-1))
    np.testing.assert_allclose(all_pairs(clicks), theta, rtol=1e-9)


def test_all_pairs_leaves_out_positions_with_clicks_on_one_side_only():
    clicks = np.array([[0, 50, 9], [20, 0, 0], [0, 0, 0]], float)
    np.testing.assert_allclose(all_pairs(clicks), [1, 20 / 50, np.nan])


def test_weights_by_impressions_have_less_variance_than_equal_weights():
    errors = {"pooled": [], "document": []}
    for seed in range(12):
        seen = simulate(np.random.default_rng(seed), 800, THETA, reach=3, shows=100)
        for weight, own in errors.items():
            table = table_of(seen, weight=weight, blocks=4)
            curve = harvested_curve(table, POSITIONS, form="all_pairs", min_clicks=10)
            own.append(np.log(curve.theta[1:] / THETA[1:]))
    assert np.mean(np.square(errors["pooled"])) < np.mean(np.square(errors["document"]))


def test_jackknife_errors_match_the_spread_over_repeated_logs():
    values, errors = [], []
    for seed in range(40):
        table = table_of(simulate(np.random.default_rng(seed), 500, THETA, reach=3))
        curve = harvested_curve(table, POSITIONS, form="all_pairs", min_clicks=10)
        values.append(curve.theta[1:])
        errors.append(curve.standard_error[1:])
    ratio = np.mean(errors, axis=0) / np.std(values, axis=0)
    assert 0.7 < ratio.mean() < 1.4


@pytest.mark.parametrize("blocks", [4, 8])
def test_intervals_from_a_few_blocks_cover_the_truth(blocks):
    """With the normal quantile 1.96 they would cover 85% and 90%."""
    covered = []
    for seed in range(60):
        seen = simulate(np.random.default_rng(1000 + seed), 400, THETA, reach=3)
        table = table_of(seen, blocks=blocks)
        low, high = harvested_curve(table, POSITIONS, form="all_pairs", min_clicks=10).interval()
        covered.append((low <= THETA) & (high >= THETA))
    assert 0.925 <= np.mean(np.array(covered)[:, 1:]) <= 0.975


def test_windows_without_drift_rarely_raise_a_warning_with_jackknife_errors():
    alarms = []
    for seed in range(40):
        curves = [
            harvested_curve(
                table_of(simulate(np.random.default_rng(2 * seed + i), 300, THETA), blocks=8),
                POSITIONS,
                form="all_pairs",
                min_clicks=10,
            )
            for i in (0, 1)
        ]
        alarms += [f.verdict == "note" for f in drift_findings(*curves, 0.05)]
    assert len(alarms) == 40
    assert np.mean(alarms) <= 0.1


def test_positions_without_common_documents_have_no_estimate_and_the_note_names_both_components():
    rng = np.random.default_rng(2)
    seen = simulate(rng, 400, THETA[:2])
    deep = simulate(rng, 400, THETA[2:4])
    seen |= {("q", 1000 + i): {k + 2: v for k, v in w.items()} for i, w in enumerate(deep.values())}
    curve = harvested_curve(table_of(seen), 4, form="all_pairs", min_clicks=10)
    assert curve.source == ["estimated", "estimated", "insufficient", "insufficient"]
    assert curve.note[2] == "no comparison links {3, 4} to {1, 2}"


@pytest.mark.parametrize("form", ["all_pairs", "adjacent", "pivot"])
def test_a_position_supported_by_one_block_of_queries_has_no_estimate(form):
    rows = [
        {"segment": None, "block": block, "k": k, "l": v, "clicks": 100.0 / k + block,
         "impressions": 400.0, "documents": 9}
        for block in range(4)
        for k, v in ((1, 2), (2, 1), (1, 3), (3, 1), (2, 3), (3, 2))
        if 3 not in (k, v) or block == 2
    ]  # fmt: skip
    table = pa.Table.from_pylist(rows, schema=harvest_schema)
    curve = harvested_curve(table, 3, form=form, min_clicks=10)
    assert curve.source == ["estimated", "estimated", "insufficient"]
    assert np.isnan(curve.theta[2])
    assert "one block of queries" in curve.note[2]
    assert curve.standard_error[1] > 0
