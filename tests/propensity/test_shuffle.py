from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.support import propensity_loops as loops
from tests.support.shuffle_lab import arms_by_depth, draw_shuffles
from tests.support.swap_lab import (
    BROWSING,
    POSITIONS,
    click_model,
    draw_sessions,
    lab_of,
    queries,
    single_buckets,
)
from ulr.propensity.browsing import fit_browsing
from ulr.propensity.estimators import swap_curve
from ulr.propensity.joint import joint_estimates, solve_pairs
from ulr.propensity.shuffle_ratios import shuffle_pair_ratios, shuffle_position_ratios
from ulr.propensity.swap_counts import SwapCounts

ANCHOR = (1, 2)


def pages_of_three_lengths(rng) -> tuple[list[list[int]], SwapCounts]:
    pages = [s for n in (2, 4, 5) for s in draw_sessions(rng, 150, [0.7, 0.6, 0.5, 0.5, 0.4][:n])]
    clicks = np.zeros((len(pages), 5), bool)
    for i, page in enumerate(pages):
        clicks[i, : len(page)] = page
    return pages, arms_by_depth(clicks, np.array([len(s) for s in pages]))


def test_ratios_of_theta_and_their_covariance_equal_a_loop_over_pages():
    pages, counts = pages_of_three_lengths(np.random.default_rng(0))
    got = shuffle_position_ratios(counts)
    assert (got.over, got.under) == ([2, 3, 4, 5], [1, 1, 1, 1])
    for i, k in enumerate(got.over):
        assert np.exp(got.log_ratio[i]) == pytest.approx(loops.shuffle_ratio(pages, (k,), (1,)))
        for j, v in enumerate(got.over):
            expected = loops.shuffle_log_covariance(pages, (k,), (v,), (1,))
            assert got.covariance[i, j] == pytest.approx(expected)
    long = [s for s in pages if len(s) >= 3]
    assert got.support[1] == min(sum(s[2] for s in long), sum(s[0] for s in long))
    assert got.sessions == len(pages)


def test_ratios_of_psi_and_their_variances_equal_a_loop_over_pages():
    pages, counts = pages_of_three_lengths(np.random.default_rng(1))
    got = shuffle_pair_ratios(counts)
    assert got.over == [(k, v) for k in range(1, 6) for v in range(k + 1, 6) if v > 2]
    for i, pair in enumerate(got.over):
        assert np.exp(got.log_ratio[i]) == pytest.approx(loops.shuffle_ratio(pages, pair, ANCHOR))
        expected = loops.shuffle_log_covariance(pages, pair, pair, ANCHOR)
        assert got.covariance[i, i] == pytest.approx(expected)
    assert np.linalg.eigvalsh(got.covariance).min() > 0


def test_positions_below_the_shuffled_ones_are_not_used():
    clicks = np.ones((100, 4), bool)
    got = shuffle_position_ratios(arms_by_depth(clicks, np.full(100, 2)))
    assert got.over == [2]


def short_and_long_queries(rng) -> np.ndarray:
    """Short queries are the more relevant ones: a ratio over all pages would be wrong."""
    relevance = queries(rng, 12, POSITIONS)
    relevance[:4] = np.minimum(relevance[:4] * 2, 1.0)
    relevance[:4, 5:] = -1
    return relevance


@pytest.mark.parametrize("name", ["independent", "continuous", "row skipping"])
def test_theta_and_psi_are_recovered_from_pages_of_different_length(name):
    rng = np.random.default_rng(2)
    relevance = short_and_long_queries(rng)
    model = click_model(BROWSING[name], POSITIONS)
    psi = model.truth(relevance, np.full(12, 1 / 12))[0]
    counts = draw_shuffles(rng, model, relevance, 1_000_000)
    curve = swap_curve(counts, "shuffle", min_clicks=100)
    theta = np.diag(psi) / psi[0, 0]
    assert np.sqrt(np.mean((curve.theta / theta - 1) ** 2)) < 0.02
    fit, _ = fit_browsing("auto", curve.theta, counts, width=2)
    assert fit.name == name.replace(" ", "_")
    pairs = joint_estimates(curve, solve_pairs(counts, min_coclicks=400), fit)
    estimated = [p for p in pairs if p.source == "estimated"]
    assert len(estimated) >= 30
    off = [np.log(p.raw * psi[0, 0] / psi[p.k - 1, p.l - 1]) / p.log_error for p in estimated]
    assert np.mean(np.abs(off) < 3) > 0.9
    assert {p.source for p in pairs} <= {"estimated", "imputed"}


@pytest.mark.parametrize("name", ["independent", "continuous"])
def test_intervals_cover_the_truth_95_times_in_100(name):
    rng = np.random.default_rng(3)
    relevance = short_and_long_queries(rng)
    model = click_model(BROWSING[name], POSITIONS)
    psi = model.truth(relevance, np.full(12, 1 / 12))[0]
    theta, pairs = [], []
    for _ in range(200):
        counts = draw_shuffles(rng, model, relevance, 10_000)
        low, high = swap_curve(counts, "shuffle", min_clicks=10).interval()
        theta.append((low <= np.diag(psi)) & (np.diag(psi) <= high))
        solution = solve_pairs(counts, min_coclicks=30)
        half = 1.96 * np.sqrt(np.diag(solution.covariance))
        for node, value, width in zip(solution.nodes, solution.log_value, half, strict=True):
            k, v = node
            if node != ANCHOR and k < 4 and v < 6:
                pairs.append(abs(value - np.log(psi[k - 1, v - 1] / psi[0, 1])) <= width)
    assert 0.93 <= np.mean(np.array(theta)[:, 1:]) <= 0.97
    assert 0.93 <= np.mean(pairs) <= 0.97


def test_a_position_with_too_few_clicks_is_refused_by_name():
    clicks = np.zeros((400, 3), bool)
    clicks[:200, 0] = clicks[100:300, 1] = clicks[:20, 2] = True
    curve = swap_curve(arms_by_depth(clicks, np.full(400, 3)), "shuffle", min_clicks=50)
    assert curve.source == ["estimated", "estimated", "insufficient"]
    assert curve.note[2] == (
        "20 clicks in 400 sessions of experiments, 50 needed; about 1,000 sessions would suffice"
    )


def test_combined_uses_swaps_and_shuffles_and_is_more_precise_than_either():
    lab = lab_of(BROWSING["independent"], single_buckets(POSITIONS))
    rng = np.random.default_rng(4)
    model = click_model(BROWSING["independent"], POSITIONS)
    swaps = lab.draw(rng, 100_000)
    shuffles = draw_shuffles(rng, model, queries(rng, 12, POSITIONS), 20_000).shuffles
    both = replace(swaps, shuffles=shuffles)
    curves = {
        "swaps": swap_curve(swaps, "combined", min_clicks=10),
        "shuffle": swap_curve(both, "shuffle", min_clicks=10),
        "both": swap_curve(both, "combined", min_clicks=10),
    }
    error = {name: curve.standard_error[1:] for name, curve in curves.items()}
    assert (error["both"] < np.minimum(error["swaps"], error["shuffle"])).all()
    assert curves["both"].misfit[1] == POSITIONS - 1
    assert np.abs(np.log(curves["both"].theta / lab.theta)).max() < 0.2
    alone = swap_curve(both, "single_swap", min_clicks=10)
    np.testing.assert_array_equal(alone.theta, curves["swaps"].theta)
