from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support.swap_lab import (
    BROWSING,
    POSITIONS,
    SwapLab,
    arms_of,
    click_model,
    draw_sessions,
    lab_of,
    queries,
    single_buckets,
)
from ulr.config.load import load_settings
from ulr.propensity import curve_checks, experiment_checks
from ulr.propensity.affine import Regression, affine_curve
from ulr.propensity.curve import fall_back, monotone
from ulr.propensity.estimators import Evidence, given_curve, swap_curve, theta_of_json
from ulr.propensity.segments import estimate_segments
from ulr.propensity.swap_counts import BucketArms, SwapCounts
from ulr.simulate.browsing import Independent

SIGNIFICANCE = 0.01


def verdicts(findings):
    return {f.verdict for f in findings}


def test_unlinked_positions_are_reported_with_a_bucket_that_would_link_them():
    rng = np.random.default_rng(0)
    arms = {
        name: arms_of(name, draw_sessions(rng, 400, [0.5] * 4), draw_sessions(rng, 400, [0.5] * 4))
        for name in ("1:2", "3:4")
    }
    curve = swap_curve(SwapCounts(4, arms), "combined", min_clicks=10)
    (finding,) = curve_checks.component_findings(curve)
    assert finding.verdict == "refused"
    assert "{1, 2}" in finding.message
    assert "{3, 4}" in finding.message
    assert "1:3" in finding.message


def test_a_clean_experiment_raises_no_warning_and_one_with_unequal_arms_does():
    lab = lab_of(BROWSING["continuous"], [*single_buckets(POSITIONS), "4:5"])
    counts = lab.draw(np.random.default_rng(1), 500_000)
    assert verdicts(experiment_checks.sample_ratio_findings(counts, SIGNIFICANCE)) == {"ok"}
    assert verdicts(experiment_checks.untouched_findings(counts, SIGNIFICANCE)) == {"ok"}
    curve = swap_curve(counts, "combined", min_clicks=100)
    assert verdicts(experiment_checks.agreement_findings(curve, SIGNIFICANCE)) == {"ok"}
    arms = counts.buckets["1:3"]
    unequal = BucketArms(arms.bucket, arms.kept + arms.kept, arms.swapped)
    changed = replace(counts, buckets=counts.buckets | {"1:3": unequal})
    findings = experiment_checks.sample_ratio_findings(changed, SIGNIFICANCE)
    assert [f.subject for f in findings if f.verdict == "warning"] == ["1:3"]


def test_different_users_in_the_swapped_arm_are_detected_at_the_untouched_positions():
    rng = np.random.default_rng(2)
    arms = arms_of(
        "1:2", draw_sessions(rng, 4000, [0.5, 0.4, 0.3]), draw_sessions(rng, 4000, [0.5, 0.4, 0.36])
    )
    (finding,) = experiment_checks.untouched_findings(SwapCounts(3, {"1:2": arms}), SIGNIFICANCE)
    assert finding.verdict == "note"
    assert finding.message.endswith("largest difference between the arms at position 3")


def test_the_p_values_of_untouched_positions_are_calibrated():
    lab = lab_of(BROWSING["independent"], single_buckets(POSITIONS))
    rng = np.random.default_rng(3)
    p = [
        f.p_value
        for _ in range(20)
        for f in experiment_checks.untouched_findings(lab.draw(rng, 200_000), SIGNIFICANCE)
    ]
    assert np.mean(np.array(p) < 0.2) == pytest.approx(0.2, abs=0.08)


def test_drift_is_detected_between_different_curves_only():
    rng = np.random.default_rng(4)
    curves = []
    for eta in (1.0, 1.0, 1.3):
        model = click_model(Independent(np.arange(1, 7) ** -eta), 6)
        lab = SwapLab(model, queries(np.random.default_rng(5), 8, 6), single_buckets(6))
        curves.append(swap_curve(lab.draw(rng, 300_000), "combined", min_clicks=50))
    assert verdicts(curve_checks.drift_findings(curves[0], curves[1], SIGNIFICANCE)) == {"ok"}
    assert verdicts(curve_checks.drift_findings(curves[0], curves[2], SIGNIFICANCE)) == {"note"}


def test_drift_between_windows_of_different_depth_is_that_of_their_common_positions():
    short, deep = given_curve([1.0, 0.5, 0.3]), given_curve([1.0, 0.4, 0.3, 0.2])
    short, deep = (
        replace(c, covariance=np.diag([0.0, *[0.01] * (c.positions - 1)])) for c in (short, deep)
    )
    for before, after in ((short, deep), (deep, short)):
        (finding,) = curve_checks.drift_findings(before, after, SIGNIFICANCE)
        assert finding.message.startswith("2 positions compared; largest change at position 2")
        assert finding.value == pytest.approx(np.log(0.5 / 0.4) ** 2 / (0.01 + 0.01))


def test_an_affine_segment_falls_back_to_pooled_alpha_and_beta_too():
    pooled = affine_curve([fit_at(2, 0.5), fit_at(3, 0.25)], 3, beta_1=0.1)
    thin = affine_curve([fit_at(2, 0.6)], 3, beta_1=0.1)
    assert np.isnan(thin.alpha[2])
    curve = fall_back(thin, pooled)
    for name in ("theta", "alpha", "beta"):
        own, merged = getattr(thin, name), getattr(curve, name)
        assert merged[:2].tolist() == own[:2].tolist()
        assert merged[2] == getattr(pooled, name)[2]


def fit_at(position, slope):
    return Regression(position, 900, slope, 0.02, 0.0, 0.01, 0.01, 0.01)


def test_a_monotone_curve_does_not_rise_at_a_position_without_an_own_estimate():
    lab = lab_of(BROWSING["independent"], single_buckets(POSITIONS))
    counts = lab.draw(np.random.default_rng(8), 200_000)
    few = replace(counts, buckets={k: v for k, v in counts.buckets.items() if k != "1:7"})
    settings = load_settings(
        None, ["propensities.estimator=combined", "propensities.monotone=true"]
    ).propensities
    bump = BROWSING["independent"].theta * np.where(np.arange(POSITIONS) == 6, 5, 1)
    other = SwapLab(click_model(Independent(bump), POSITIONS), np.full((1, POSITIONS), 0.5),
                    single_buckets(POSITIONS))  # fmt: skip
    traffic = Evidence(other.draw(np.random.default_rng(9), 200_000))
    curve = estimate_segments(traffic, {"s": Evidence(few)}, settings)[1].curve
    assert curve.source[6] == "pooled"
    assert np.all(np.diff(curve.theta) <= 0)
    assert curve.note[6].startswith("smoothed from ")
    assert "estimate over all traffic" in curve.note[6]


def test_monotone_smoothing_pools_rising_positions_by_their_weights():
    curve = given_curve([1.0, 0.4, 0.5, 0.2])
    curve = replace(curve, covariance=np.diag([0.0, 0.01, 0.01, 0.01]))
    smooth = monotone(curve)
    level = np.sqrt(0.4 * 0.5)  # the mean on the log scale
    np.testing.assert_allclose(smooth.theta, [1.0, level, level, 0.2])
    assert smooth.note[1] == "smoothed from 0.4000"


def test_a_given_curve_is_used_unchanged_or_rejected():
    assert given_curve([1, 0.5]).source == ["given", "given"]
    assert theta_of_json({"theta": [1, 0.5]}, "x.json") == [1.0, 0.5]
    for bad in ([], [1, 0], [1, 1.5]):
        with pytest.raises(ValueError, match=r"propensities\.given"):
            given_curve(bad)
    with pytest.raises(ValueError, match=r"x.json"):
        theta_of_json({"theta": "a"}, "x.json")
