"""The curves of levels of feedback: whether they agree, and their table."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.swap_lab import POSITIONS, POWER, SwapLab, click_model, queries
from ulr.propensity.curve import make_curve
from ulr.propensity.estimators import swap_curve
from ulr.propensity.levels import LevelCurve, level_findings, level_table
from ulr.simulate.browsing import Independent
from ulr.warehouse.schema import level_propensities_schema

BUCKETS = [f"1:{k}" for k in range(2, POSITIONS + 1)]


def curve(theta, error=0.05):
    theta = np.asarray(theta, float)
    covariance = np.diag(np.r_[0.0, np.full(theta.size - 1, error**2)])
    return make_curve("combined", theta, covariance, np.full(theta.size, 100), {})


def levels(*thetas):
    names = ("click", "cart", "purchase")
    return [LevelCurve(name, 1000, curve(own)) for name, own in zip(names, thetas, strict=False)]


def test_equal_curves_agree_and_another_one_is_a_note_that_names_its_event():
    same, steep = [1, 0.5, 0.3, 0.2], [1, 0.5, 0.2, 0.1]
    cart, purchase = level_findings(levels(same, same, steep), 0.05)
    assert (cart.subject, cart.verdict) == ("cart", "ok")
    assert (purchase.subject, purchase.verdict) == ("purchase", "note")
    assert "purchase or higher against click or higher" in purchase.message


def test_a_level_without_a_curve_is_not_tested():
    same = [1, 0.5, 0.3, 0.2]
    own = levels(same, [1, np.nan, np.nan, np.nan], same)
    findings = {finding.subject: finding for finding in level_findings(own, 0.05)}
    assert findings["purchase"].verdict == "ok"
    assert "too few events of cart" in findings["cart"].message
    assert np.isnan(findings["cart"].p_value)


@pytest.mark.parametrize("alone", [0, 1])
def test_a_log_with_one_level_or_only_thin_ones_has_no_alarm(alone):
    same, none = [1, 0.5], [1, np.nan]
    own = levels(same, none) if alone else levels(same)
    assert [finding.verdict for finding in level_findings(own, 0.05)] == ["ok"] * alone


def test_the_table_has_every_position_of_every_level():
    table = level_table(levels([1, 0.5, 0.2], [1, 0.4, np.nan]))
    assert table.schema.equals(level_propensities_schema)
    rows = table.to_pylist()
    assert [(r["level"], r["event"], r["position"]) for r in rows] == [
        (1, "click", 1), (1, "click", 2), (1, "click", 3),
        (2, "cart", 1), (2, "cart", 2), (2, "cart", 3),
    ]  # fmt: skip
    assert rows[1]["lower"] < 0.5 < rows[1]["upper"]
    assert rows[5]["theta"] is None


def test_levels_that_are_independent_of_position_rarely_raise_a_note():
    """The events of a level are drawn from the clicks; in 200 logs about 5% or fewer may differ."""
    rng = np.random.default_rng(3)
    relevance = queries(rng, 40, POSITIONS)
    model, deeper = (click_model(Independent(POWER), POSITIONS, positive=p) for p in (1.0, 0.3))
    every, rare = (SwapLab(m, relevance, BUCKETS) for m in (model, deeper))
    alarms = 0
    for _ in range(200):
        own = [
            swap_curve(lab.draw(rng, 60_000), "combined", min_clicks=20) for lab in (every, rare)
        ]
        found = level_findings(
            [LevelCurve("click", 1, own[0]), LevelCurve("purchase", 1, own[1])], 0.05
        )
        alarms += found[0].verdict != "ok"
    assert alarms <= 20
