from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tests.support import propensity_loops as loops
from tests.support.swap_lab import (
    BROWSING,
    POSITIONS,
    arm_of,
    arms_of,
    draw_sessions,
    lab_of,
    pair_buckets,
    single_buckets,
)
from ulr.experiments.buckets import parse_bucket
from ulr.propensity import least_squares
from ulr.propensity.estimators import swap_curve
from ulr.propensity.joint import solve_pairs
from ulr.propensity.ratios import _co_clicked_both, pair_ratios, position_ratios
from ulr.propensity.swap_counts import ALL_CLICKED, Arm, BucketArms, SwapCounts


def test_pooled_ratio_and_its_variance_equal_a_loop_over_sessions():
    rng = np.random.default_rng(0)
    kept, swapped = draw_sessions(rng, 90, [0.5, 0.3, 0.2]), draw_sessions(rng, 70, [0.4, 0.3, 0.3])
    got = position_ratios(arms_of("1:3", kept, swapped))
    assert (got.over, got.under) == ([3], [1])
    assert np.exp(got.log_ratio[0]) == pytest.approx(loops.pooled_swap_ratio(kept, swapped, 1, 3))
    assert got.covariance[0, 0] == pytest.approx(loops.pooled_log_variance(kept, swapped, 1, 3))


def test_one_document_ratio_equals_a_loop_over_sessions():
    rng = np.random.default_rng(1)
    kept, swapped = draw_sessions(rng, 90, [0.5, 0.3, 0.2]), draw_sessions(rng, 70, [0.4, 0.3, 0.3])
    got = position_ratios(arms_of("1:3", kept, swapped), pooled=False)
    expected = loops.one_document_swap_ratio(kept, swapped, 1, 3)
    assert np.exp(got.log_ratio[0]) == pytest.approx(expected)


def test_pair_swap_gives_two_exchanges_of_theta_and_two_of_psi():
    rng = np.random.default_rng(2)
    kept, swapped = draw_sessions(rng, 300, [0.6] * 4), draw_sessions(rng, 200, [0.6] * 4)
    arms = arms_of("1,2:3,4", kept, swapped)
    theta = position_ratios(arms)
    assert list(zip(theta.over, theta.under, strict=True)) == [(3, 1), (4, 2)]
    psi = pair_ratios(arms)
    assert list(zip(psi.over, psi.under, strict=True)) == [((2, 3), (1, 4)), ((3, 4), (1, 2))]
    expected = loops.joint_swap_ratio(kept, swapped, (3, 4), (1, 2))
    assert np.exp(psi.log_ratio[1]) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["1:3", "2:5", "1,2:3,4", "1,2:2,5"])
def test_co_clicks_of_two_pairs_equal_a_loop_over_sessions(name):
    sessions = draw_sessions(np.random.default_rng(10), 400, [0.6] * 5)
    bucket = parse_bucket(name)
    single = len(bucket.positions) == 2
    pairs = [
        (p, q)
        for p, q in combinations(range(1, 6), 2)
        if ({p, q} & {*bucket.positions} if single else {p, q} <= {*bucket.positions})
    ]
    both = _co_clicked_both(bucket.positions)(arm_of(sessions, bucket), pairs)
    expected = [[sum(all(s[p - 1] for p in (*e, *f)) for s in sessions) for f in pairs]
                for e in pairs]  # fmt: skip
    assert both.tolist() == expected


def test_each_bucket_of_fifty_positions_is_solved_in_its_own_columns(monkeypatch):
    """A column per pair of positions would make every bucket's design 1,224 columns wide."""
    rng = np.random.default_rng(11)
    positions = 50
    arms = {}
    for name in single_buckets(positions):
        bucket = parse_bucket(name)
        clicks = (rng.random((2, 2000, positions)) < 0.5).astype(float)
        kept, swapped = (
            Arm(2000, both(c), {p: both(c[c[:, p - 1] > 0]) for p in bucket.positions}
                | {ALL_CLICKED: both(c[(c[:, [p - 1 for p in bucket.positions]] > 0).all(axis=1)])})
            for c in clicks
        )  # fmt: skip
        arms[name] = BucketArms(bucket, kept, swapped)
    widths, design = [], least_squares._design
    monkeypatch.setattr(
        least_squares,
        "_design",
        lambda *args: widths.append(len(design(*args)[1])) or design(*args),
    )
    solution = solve_pairs(SwapCounts(positions, arms), min_coclicks=100)
    assert len(solution.nodes) == positions * (positions - 1) // 2
    assert len(widths) == positions - 1
    assert max(widths) <= 2 * (positions - 2)


def both(clicks):
    return np.rint(clicks.T @ clicks).astype(np.int64)


def test_overlapping_pair_swap_follows_each_document():
    """1,2:2,5 shows 2 at 1, 5 at 2 and 1 at 5: three documents, three ratios."""
    rng = np.random.default_rng(3)
    kept, swapped = draw_sessions(rng, 300, [0.6] * 5), draw_sessions(rng, 200, [0.6] * 5)
    arms = arms_of("1,2:2,5", kept, swapped)
    got = position_ratios(arms)
    assert list(zip(got.over, got.under, strict=True)) == [(1, 5), (2, 1), (5, 2)]
    rate = lambda pages, p: sum(s[p - 1] for s in pages) / len(pages)  # noqa: E731
    expected = [rate(kept, a) / rate(swapped, b) for a, b in ((1, 5), (2, 1), (5, 2))]
    assert np.exp(got.log_ratio) == pytest.approx(expected)
    psi = pair_ratios(arms)
    assert {frozenset(e) for e in zip(psi.over, psi.under, strict=True)} == {
        frozenset({(1, 2), (1, 5)}),
        frozenset({(2, 5), (1, 2)}),
        frozenset({(1, 5), (2, 5)}),
    }


def test_chain_is_the_product_of_its_ratios_and_its_variances_add():
    rng = np.random.default_rng(4)
    arms = {
        f"{k}:{k + 1}": arms_of(
            f"{k}:{k + 1}", draw_sessions(rng, 400, [0.6] * 4), draw_sessions(rng, 400, [0.5] * 4)
        )
        for k in (1, 2, 3)
    }
    curve = swap_curve(SwapCounts(4, arms), "adjacent_chain", min_clicks=1)
    steps = [position_ratios(a) for a in arms.values()]
    product = loops.log_sum([float(np.exp(r.log_ratio[0])) for r in steps])
    assert curve.theta[3] == pytest.approx(product)
    added = sum(r.covariance[0, 0] for r in steps)
    assert curve.covariance[3, 3] == pytest.approx(added)


def test_combined_equals_single_swap_when_all_buckets_are_single_swaps():
    lab = lab_of(BROWSING["independent"], single_buckets(POSITIONS))
    counts = lab.draw(np.random.default_rng(5), 200_000)
    single = swap_curve(counts, "single_swap", min_clicks=10)
    combined = swap_curve(counts, "combined", min_clicks=10)
    np.testing.assert_allclose(combined.theta, single.theta)
    np.testing.assert_allclose(combined.standard_error, single.standard_error)


@pytest.mark.parametrize("name", BROWSING)
def test_recovers_known_propensities(name):
    buckets = single_buckets(POSITIONS) + pair_buckets(POSITIONS)
    lab = lab_of(BROWSING[name], buckets, negative=0.1)
    curve = swap_curve(lab.draw(np.random.default_rng(6), 2_000_000), "combined", min_clicks=100)
    assert np.sqrt(np.mean((curve.theta / lab.theta - 1) ** 2)) < 0.02


def test_intervals_of_theta_cover_the_truth_95_times_in_100():
    lab = lab_of(BROWSING["continuous"], [*single_buckets(POSITIONS), "4:5", "1,2:2,5", "1,2:7,9"])
    rng = np.random.default_rng(7)
    covered = []
    for _ in range(200):
        low, high = swap_curve(lab.draw(rng, 300_000), "combined", min_clicks=10).interval()
        covered.append((low <= lab.theta) & (lab.theta <= high))
    assert 0.93 <= np.mean(np.array(covered)[:, 1:]) <= 0.97


def test_pooling_both_documents_has_less_variance_than_one_document():
    lab = lab_of(BROWSING["independent"], single_buckets(POSITIONS))
    rng = np.random.default_rng(8)
    pooled, one = [], []
    for _ in range(100):
        counts = lab.draw(rng, 300_000)
        pooled.append(swap_curve(counts, "single_swap", min_clicks=1).theta[1:])
        one.append(swap_curve(counts, "single_swap", min_clicks=1, pooled=False).theta[1:])
    assert np.all(np.var(pooled, axis=0) < np.var(one, axis=0))


def test_a_position_with_too_few_clicks_has_no_estimate_and_a_note_with_the_sessions_needed():
    kept = [[1, 1, 0]] * 50 + [[0, 0, 0]] * 50
    arms = {
        "1:2": arms_of("1:2", kept, kept),
        "1:3": arms_of("1:3", [[1, 0, 1]] * 10 + [[1, 0, 0]] * 90, [[1, 0, 1]] * 10),
    }
    curve = swap_curve(SwapCounts(3, arms), "single_swap", min_clicks=100)
    assert curve.source == ["estimated", "estimated", "insufficient"]
    assert np.isnan(curve.theta[2])
    sessions = 110 * 100 // 20
    assert f"about {sessions:,} sessions would suffice" in curve.note[2]


def test_comparisons_with_insufficient_positions_are_not_support():
    """Positions 4 to 7 have too few clicks, so their comparisons with position 3 do not count."""
    rng = np.random.default_rng(12)
    sizes = {"1:2": (2000, 0.5), "1:3": (20, 0.1)} | {f"3:{k}": (200, 0.1) for k in (4, 5, 6, 7)}
    arms = {
        name: arms_of(
            name, draw_sessions(rng, pages, [rate] * 7), draw_sessions(rng, pages, [rate] * 7)
        )
        for name, (pages, rate) in sizes.items()
    }
    curve = swap_curve(SwapCounts(7, arms), "combined", min_clicks=50)
    assert curve.source == ["estimated"] * 2 + ["insufficient"] * 5
    few = int(position_ratios(arms["1:3"]).support[0])
    assert curve.note[2].startswith(f"{few} clicks in 40 sessions of experiments, 50 needed")
    assert curve.support[2] == few


def test_positions_without_a_link_have_no_estimate_and_the_note_names_both_components():
    """Oosterhuis 2022, section 6.1: {1, 2} and {3, 4} are never compared."""
    rng = np.random.default_rng(9)
    arms = {
        name: arms_of(name, draw_sessions(rng, 400, [0.5] * 4), draw_sessions(rng, 400, [0.5] * 4))
        for name in ("1:2", "3:4")
    }
    curve = swap_curve(SwapCounts(4, arms), "combined", min_clicks=10)
    assert curve.components == [[1, 2], [3, 4]]
    assert curve.source == ["estimated", "estimated", "insufficient", "insufficient"]
    assert curve.note[2] == "no comparison links {3, 4} to {1, 2}"


def test_a_bucket_with_pages_in_one_arm_only_gives_no_ratio():
    """Its ratio would compare documents, not positions."""
    kept = draw_sessions(np.random.default_rng(9), 400, [0.5, 0.3, 0.2])
    bucket = parse_bucket("1:3")
    alone = BucketArms(bucket, arm_of(kept, bucket), Arm.empty(3))
    assert position_ratios(alone).over == []
    assert pair_ratios(alone).over == []
    curve = swap_curve(SwapCounts(3, {"1:3": alone}), "combined", min_clicks=1)
    assert curve.source == ["estimated", "insufficient", "insufficient"]
