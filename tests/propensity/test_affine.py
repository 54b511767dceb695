from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from ulr.propensity.affine import Regression, affine_curve, regressions
from ulr.propensity.experiment_checks import trust_findings
from ulr.propensity.schema import moments_schema
from ulr.simulate.clicks import relevance_of, trust_curve

ALPHA = np.array([0.9, 0.5, 0.3])
BETA = np.array([0.1, 0.04, 0.02])


def factorial_power(c, n, p):
    value = 1.0
    for lost in range(p):
        value *= (c - lost) / (n - lost)
    return value


def moments(rng, click, *, documents=4000, shows=(5, 60), blocks=32):
    """Rows of moments for 1:2 and 1:3; click(k, relevance) is the true rate."""
    rows = []
    for k in (2, 3):
        for block in range(blocks):
            row = dict.fromkeys(moments_schema.names, 0.0)
            for _ in range(documents // blocks):
                relevance = rng.uniform(0, 1) ** 2
                n, m = rng.integers(*shows, 2)
                c, d = rng.binomial(n, click(1, relevance)), rng.binomial(m, click(k, relevance))
                w = n * m / (n + m)
                for p in range(5):
                    row[f"x{p}"] += w * factorial_power(c, n, p)
                for p in range(3):
                    row[f"x{p}y"] += w * factorial_power(c, n, p) * d / m
            name = {"segment": None, "bucket": f"1:{k}", "block": block}
            rows.append(row | name | {"documents": documents // blocks})
    return pa.Table.from_pylist(rows, schema=moments_schema)


def experiment(rng, alpha, beta, relevance, pages):
    """Moments of single swaps 1:k over queries of Zipf's law; relevance: queries x positions."""
    queries, positions = relevance.shape
    weight = 1.0 / np.arange(1, queries + 1)
    rows = []
    for k in range(2, positions + 1):
        asked = rng.multinomial(pages // (positions - 1), weight / weight.sum())
        swapped = rng.binomial(asked, 0.5)
        kept = asked - swapped
        for ranked, first, second in ((1, kept, swapped), (k, swapped, kept)):
            of = relevance[:, ranked - 1]
            c = rng.binomial(first, alpha[0] * of + beta[0])
            d = rng.binomial(second, alpha[k - 1] * of + beta[k - 1])
            often = np.flatnonzero((first > 3) & (second > 0))
            c, d, n, m = c[often], d[often], first[often], second[often]
            w, powers = n * m / (n + m), [factorial_power(c, n, p) for p in range(5)]
            for block in range(32):
                at = often % 32 == block
                row = {"segment": None, "bucket": f"1:{k}", "block": block}
                row |= {f"x{p}": float(np.sum((w * powers[p])[at])) for p in range(5)}
                row |= {f"x{p}y": float(np.sum((w * powers[p] * d / m)[at])) for p in range(3)}
                rows.append(row | {"documents": int(at.sum())})
    return pa.Table.from_pylist(rows, schema=moments_schema)


def test_recovers_trust_bias_from_two_million_swap_pages():
    rng = np.random.default_rng(0)
    positions = 10
    theta, negative = np.arange(1, positions + 1) ** -1.0, trust_curve(positions, 0.1, 0.3)
    alpha, beta = theta * (1 - negative), theta * negative
    relevance = relevance_of(rng.integers(0, 5, (2000, positions)), 4, 0.1)
    fits = regressions(experiment(rng, alpha, beta, relevance, 2_000_000))
    curve = affine_curve(fits, positions, beta_1=beta[0])
    error = curve.theta / (alpha / alpha[0]) - 1
    assert np.sqrt(np.mean(error**2)) < 0.02
    np.testing.assert_allclose(curve.beta, beta, atol=0.005)
    assert verdicts(fits, "intercept") == ["note"] * (positions - 1)
    assert verdicts(fits, "curvature") == ["ok"] * (positions - 1)


def affine(k, relevance):
    return ALPHA[k - 1] * relevance + BETA[k - 1]


def test_recovers_alpha_and_beta_from_noisy_rates():
    fits = regressions(moments(np.random.default_rng(0), affine))
    curve = affine_curve(fits, 3, beta_1=BETA[0])
    np.testing.assert_allclose(curve.alpha, ALPHA, rtol=0.05)
    np.testing.assert_allclose(curve.beta, BETA, atol=0.01)
    np.testing.assert_allclose(curve.theta, ALPHA / ALPHA[0], rtol=0.05)


def test_errors_of_the_slope_and_the_intercept_cover_the_truth():
    for fit in regressions(moments(np.random.default_rng(1), affine)):
        slope = ALPHA[fit.position - 1] / ALPHA[0]
        intercept = BETA[fit.position - 1] - slope * BETA[0]
        assert abs(fit.slope - slope) < 4 * fit.slope_error
        assert abs(fit.intercept - intercept) < 4 * fit.intercept_error


def verdicts(fits, check):
    return [f.verdict for f in trust_findings(fits, 0.01) if f.check == check]


def test_plain_position_bias_raises_no_warning():
    fits = regressions(moments(np.random.default_rng(2), lambda k, r: r / k))
    assert verdicts(fits, "intercept") == ["ok", "ok"]
    assert verdicts(fits, "curvature") == ["ok", "ok"]


def test_p_values_use_the_degrees_of_freedom_of_the_blocks():
    """The normal distribution would give a fifth of the p-value of 15 degrees of freedom."""
    fit = Regression(2, 900, 0.5, 0.034, 0.0, 0.01, 0.01, 0.01, dof=15)
    p_values = {f.check: f.p_value for f in trust_findings([fit], 0.01)}
    assert p_values["intercept"] == pytest.approx(2 * stats.t.sf(3.4, 15))
    assert regressions(moments(np.random.default_rng(5), affine))[0].dof == 31


def test_trust_bias_is_detected_by_the_intercept():
    click = lambda k, r: (0.6 * r + 0.4 / k) / k  # noqa: E731
    fits = regressions(moments(np.random.default_rng(3), click))
    assert verdicts(fits, "intercept") == ["note", "note"]


def test_a_relation_that_is_not_affine_is_detected_by_the_curvature():
    click = lambda k, r: 0.9 * r ** (1 + 2 * (k > 1))  # noqa: E731
    fits = regressions(moments(np.random.default_rng(4), click))
    assert verdicts(fits, "curvature") == ["note", "note"]


def test_a_position_without_a_bucket_has_no_estimate():
    curve = affine_curve([], 2, beta_1=0.0)
    assert curve.source == ["estimated", "insufficient"]
    assert "1:2" in curve.note[1]
    assert curve.alpha[0] == pytest.approx(1.0)
