from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.rank_worlds import POSITIONS, THETA, harvest_of, rank_log
from tests.support.swap_lab import SwapLab, click_model, queries, single_buckets
from ulr.config.load import load_settings
from ulr.propensity.estimators import Evidence
from ulr.propensity.harvest_checks import harvest_findings, swap_findings
from ulr.propensity.harvesting import harvested_curve
from ulr.propensity.segments import estimate_segments
from ulr.propensity.swap_counts import SwapCounts
from ulr.simulate.browsing import Independent


def checked(world, seed, **sizes):
    """The curve of a simulated log, and its findings by check."""
    table = harvest_of(*rank_log(world, np.random.default_rng(seed), **sizes))
    curve = harvested_curve(table, POSITIONS, form="all_pairs", min_clicks=20)
    findings = harvest_findings(table, curve, min_clicks=20, significance=0.01)
    return curve, {f.check: f for f in findings}


def test_random_rank_changes_raise_no_note():
    curve, findings = checked("random", 1, queries=400)
    np.testing.assert_allclose(curve.theta, THETA, rtol=0.1)
    assert {f.verdict for f in findings.values()} == {"ok"}


def test_relevance_that_moves_from_day_to_day_is_noted_by_the_comparison_of_days():
    curve, findings = checked("moving", 1)
    assert curve.theta[5] < 0.5 * THETA[5]
    assert findings["harvest_days"].verdict == "note"
    assert findings["harvest_days"].value < -0.2
    assert "compared between days, theta is k^-0." in findings["harvest_days"].message


@pytest.mark.parametrize("world", ["personal", "moving"])
def test_rankings_that_follow_the_user_or_the_day_are_noted_by_the_steepness_of_queries(world):
    curve, findings = checked(world, 2, queries=800)
    assert curve.theta[5] < 0.5 * THETA[5]
    assert findings["harvest_relevance"].verdict == "note"


def test_personal_rankings_are_not_visible_in_the_comparison_of_days():
    _, findings = checked("personal", 1)
    assert findings["harvest_days"].verdict == "ok"


def test_p_values_are_calibrated_under_random_rank_changes():
    p = [
        [f.p_value for f in checked("random", seed, queries=64, days=3, sessions=12)[1].values()]
        for seed in range(16)
    ]
    assert np.all(np.mean(np.array(p) < 0.2, axis=0) <= 0.4)
    assert np.all(np.mean(np.array(p) < 0.6, axis=0) >= 0.25)


def swap_counts(theta):
    lab = SwapLab(
        click_model(Independent(theta), POSITIONS),
        queries(np.random.default_rng(1), 12, POSITIONS), single_buckets(POSITIONS),
    )  # fmt: skip
    return lab.draw(np.random.default_rng(2), 60_000)


def test_a_harvested_curve_is_compared_with_the_swaps_of_the_log():
    swaps = swap_counts(THETA)
    for world, verdict in (("random", "ok"), ("personal", "note")):
        curve, _ = checked(world, 3)
        (finding,) = swap_findings(curve, swaps, min_clicks=50, significance=0.01)
        assert finding.verdict == verdict
        assert "theta by all_pairs against the swap buckets: 5 positions" in finding.message


def test_swap_buckets_without_enough_clicks_give_no_finding():
    curve, _ = checked("random", 4)
    few = swap_counts(THETA)
    none = replace(few, buckets={})
    assert swap_findings(curve, none, min_clicks=50, significance=0.01) == []


def test_the_checks_are_among_the_findings_of_the_estimate():
    table = harvest_of(*rank_log("random", np.random.default_rng(5)))
    settings = load_settings(None, ["propensities.estimator=all_pairs"]).propensities
    (result,) = estimate_segments(Evidence(swap_counts(THETA), harvest=table), {}, settings)
    checks = {f.check for f in result.findings}
    assert {"harvest_days", "harvest_relevance", "harvest_swaps"} <= checks
    (alone,) = estimate_segments(Evidence(SwapCounts(POSITIONS), harvest=table), {}, settings)
    assert "harvest_swaps" not in {f.check for f in alone.findings}


def test_a_log_without_moves_within_a_day_is_not_compared():
    clicks, position = rank_log("random", np.random.default_rng(6), sessions=1, days=30)
    table = harvest_of(clicks, position)
    curve = harvested_curve(table, POSITIONS, form="all_pairs", min_clicks=20)
    findings = harvest_findings(table, curve, min_clicks=20, significance=0.01)
    assert [f.check for f in findings] == ["harvest_relevance"]
