from __future__ import annotations

import time
from itertools import combinations

import numpy as np
import pytest

from tests.support import propensity_loops as loops
from tests.support.swap_lab import (
    Continuous,
    Independent,
    RowSkipping,
    SwapLab,
    click_model,
    pair_buckets,
    queries,
    single_buckets,
)
from ulr.experiments.buckets import parse_bucket
from ulr.propensity.estimators import adjacent_chain_curve, combined_curve, single_swap_curve
from ulr.propensity.joint import measure_pairs
from ulr.propensity.ratios import _joint_pairs, pair_ratios, position_ratios
from ulr.propensity.swap_counts import WHOLE, Arm, BucketArms, SwapCounts

POSITIONS = 10
POWER = np.arange(1, POSITIONS + 1) ** -1.0
BROWSING = {
    "independent": Independent(POWER),
    "continuous": Continuous(POWER),
    "row skipping": RowSkipping(0.3, np.full(POSITIONS, 0.9), 2),
}


def arm_of(sessions, bucket):
    touched = bucket.positions
    conditions = [*[(p,) for p in touched], touched]
    together, *given = loops.arm_counts(sessions, len(sessions[0]), conditions)
    names = [*touched, WHOLE]
    layers = {name: np.array(matrix) for name, matrix in zip(names, given, strict=True)}
    return Arm(len(sessions), np.array(together), layers)


def arms_of(name, kept, swapped):
    bucket = parse_bucket(name)
    return BucketArms(bucket, arm_of(kept, bucket), arm_of(swapped, bucket))


def draw(rng, pages, rates):
    return (rng.random((pages, len(rates))) < rates).astype(int).tolist()


def lab_of(browsing, buckets, seed=1, **noise):
    rng = np.random.default_rng(seed)
    model = click_model(browsing, POSITIONS, **noise)
    return SwapLab(model, queries(rng, 12, POSITIONS), buckets)


def test_pooled_ratio_and_its_variance_equal_a_loop_over_sessions():
    rng = np.random.default_rng(0)
    kept, swapped = draw(rng, 90, [0.5, 0.3, 0.2]), draw(rng, 70, [0.4, 0.3, 0.3])
    got = position_ratios(arms_of("1:3", kept, swapped))
    assert (got.over, got.under) == ([3], [1])
    assert np.exp(got.log_ratio[0]) == pytest.approx(loops.pooled_swap_ratio(kept, swapped, 1, 3))
    assert got.covariance[0, 0] == pytest.approx(loops.pooled_log_variance(kept, swapped, 1, 3))


def test_one_document_ratio_equals_a_loop_over_sessions():
    rng = np.random.default_rng(1)
    kept, swapped = draw(rng, 90, [0.5, 0.3, 0.2]), draw(rng, 70, [0.4, 0.3, 0.3])
    got = position_ratios(arms_of("1:3", kept, swapped), pooled=False)
    expected = loops.one_document_swap_ratio(kept, swapped, 1, 3)
    assert np.exp(got.log_ratio[0]) == pytest.approx(expected)


def test_pair_swap_gives_two_exchanges_of_theta_and_two_of_psi():
    rng = np.random.default_rng(2)
    kept, swapped = draw(rng, 300, [0.6] * 4), draw(rng, 200, [0.6] * 4)
    arms = arms_of("1,2:3,4", kept, swapped)
    theta = position_ratios(arms)
    assert list(zip(theta.over, theta.under, strict=True)) == [(3, 1), (4, 2)]
    psi = pair_ratios(arms)
    assert list(zip(psi.over, psi.under, strict=True)) == [((2, 3), (1, 4)), ((3, 4), (1, 2))]
    expected = loops.joint_swap_ratio(kept, swapped, (3, 4), (1, 2))
    assert np.exp(psi.log_ratio[1]) == pytest.approx(expected)


@pytest.mark.parametrize("name", ["1:3", "2:5", "1,2:3,4", "1,2:2,5"])
def test_co_clicks_of_two_pairs_equal_a_loop_over_sessions(name):
    sessions = draw(np.random.default_rng(10), 400, [0.6] * 5)
    bucket = parse_bucket(name)
    single = len(bucket.positions) == 2
    pairs = [
        (p, q)
        for p, q in combinations(range(1, 6), 2)
        if ({p, q} & {*bucket.positions} if single else {p, q} <= {*bucket.positions})
    ]
    found = _joint_pairs(bucket.positions)(arm_of(sessions, bucket), pairs)
    expected = [[sum(all(s[p - 1] for p in (*e, *f)) for s in sessions) for f in pairs]
                for e in pairs]  # fmt: skip
    assert found.tolist() == expected


def test_fifty_positions_are_measured_in_seconds():
    """A call per pair of pairs, and a column per pair of positions, took 8 s a segment."""
    rng = np.random.default_rng(11)
    positions = 50
    arms = {}
    for name in single_buckets(positions):
        bucket = parse_bucket(name)
        clicks = (rng.random((2, 2000, positions)) < 0.5).astype(float)
        kept, swapped = (
            Arm(2000, both(c), {p: both(c[c[:, p - 1] > 0]) for p in bucket.positions}
                | {WHOLE: both(c[(c[:, [p - 1 for p in bucket.positions]] > 0).all(axis=1)])})
            for c in clicks
        )  # fmt: skip
        arms[name] = BucketArms(bucket, kept, swapped)
    counts = SwapCounts(positions, arms)
    started = time.process_time()
    solution = measure_pairs(counts, min_coclicks=100)
    assert len(solution.nodes) == positions * (positions - 1) // 2
    assert time.process_time() - started < 4


def both(clicks):
    return np.rint(clicks.T @ clicks).astype(np.int64)


def test_overlapping_pair_swap_follows_each_document():
    """1,2:2,5 shows 2 at 1, 5 at 2 and 1 at 5: three documents, three ratios."""
    rng = np.random.default_rng(3)
    kept, swapped = draw(rng, 300, [0.6] * 5), draw(rng, 200, [0.6] * 5)
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
            f"{k}:{k + 1}", draw(rng, 400, [0.6] * 4), draw(rng, 400, [0.5] * 4)
        )
        for k in (1, 2, 3)
    }
    curve = adjacent_chain_curve(SwapCounts(4, arms), min_clicks=1)
    steps = [position_ratios(a) for a in arms.values()]
    product = loops.log_sum([float(np.exp(r.log_ratio[0])) for r in steps])
    assert curve.theta[3] == pytest.approx(product)
    added = sum(r.covariance[0, 0] for r in steps)
    assert curve.covariance[3, 3] == pytest.approx(added)


def test_combined_equals_single_swaps_when_there_is_nothing_else():
    lab = lab_of(BROWSING["independent"], single_buckets(POSITIONS))
    counts = lab.draw(np.random.default_rng(5), 200_000)
    single = single_swap_curve(counts, min_clicks=10)
    combined = combined_curve(counts, min_clicks=10)
    np.testing.assert_allclose(combined.theta, single.theta)
    np.testing.assert_allclose(combined.standard_error, single.standard_error)


@pytest.mark.parametrize("name", BROWSING)
def test_recovers_known_propensities(name):
    buckets = single_buckets(POSITIONS) + pair_buckets(POSITIONS)
    lab = lab_of(BROWSING[name], buckets, negative=0.1)
    curve = combined_curve(lab.draw(np.random.default_rng(6), 2_000_000), min_clicks=100)
    assert np.sqrt(np.mean((curve.theta / lab.theta - 1) ** 2)) < 0.02


def test_intervals_of_theta_cover_the_truth_95_times_in_100():
    lab = lab_of(BROWSING["continuous"], [*single_buckets(POSITIONS), "4:5", "1,2:2,5", "1,2:7,9"])
    rng = np.random.default_rng(7)
    covered = []
    for _ in range(200):
        low, high = combined_curve(lab.draw(rng, 300_000), min_clicks=10).interval()
        covered.append((low <= lab.theta) & (lab.theta <= high))
    assert 0.93 <= np.mean(np.array(covered)[:, 1:]) <= 0.97


def test_pooling_both_documents_has_less_variance_than_one_document():
    lab = lab_of(BROWSING["independent"], single_buckets(POSITIONS))
    rng = np.random.default_rng(8)
    pooled, one = [], []
    for _ in range(100):
        counts = lab.draw(rng, 300_000)
        pooled.append(single_swap_curve(counts, min_clicks=1).theta[1:])
        one.append(single_swap_curve(counts, min_clicks=1, pooled=False).theta[1:])
    assert np.all(np.var(pooled, axis=0) < np.var(one, axis=0))


def test_a_position_with_too_few_clicks_is_refused_with_the_sessions_it_would_take():
    kept = [[1, 1, 0]] * 50 + [[0, 0, 0]] * 50
    arms = {
        "1:2": arms_of("1:2", kept, kept),
        "1:3": arms_of("1:3", [[1, 0, 1]] * 10 + [[1, 0, 0]] * 90, [[1, 0, 1]] * 10),
    }
    curve = single_swap_curve(SwapCounts(3, arms), min_clicks=100)
    assert curve.source == ["estimated", "estimated", "insufficient"]
    assert np.isnan(curve.theta[2])
    sessions = 110 * 100 // 20
    assert f"about {sessions:,} sessions would do" in curve.note[2]


def test_clicks_compared_with_refused_positions_alone_are_no_support():
    """Position 3 was published by 6 clicks, because 4 to 7, all refused, were compared with it."""
    rng = np.random.default_rng(12)
    sizes = {"1:2": (2000, 0.5), "1:3": (20, 0.1)} | {f"3:{k}": (200, 0.1) for k in (4, 5, 6, 7)}
    arms = {
        name: arms_of(name, draw(rng, pages, [rate] * 7), draw(rng, pages, [rate] * 7))
        for name, (pages, rate) in sizes.items()
    }
    curve = combined_curve(SwapCounts(7, arms), min_clicks=50)
    assert curve.source == ["estimated"] * 2 + ["insufficient"] * 5
    few = int(position_ratios(arms["1:3"]).support[0])
    assert curve.note[2].startswith(f"{few} clicks in 40 swap sessions, 50 needed")
    assert curve.support[2] == few


def test_positions_that_nothing_links_are_refused_by_naming_both_components():
    """Oosterhuis 2022, section 6.1: {1, 2} and {3, 4} are never compared."""
    rng = np.random.default_rng(9)
    arms = {
        name: arms_of(name, draw(rng, 400, [0.5] * 4), draw(rng, 400, [0.5] * 4))
        for name in ("1:2", "3:4")
    }
    curve = combined_curve(SwapCounts(4, arms), min_clicks=10)
    assert curve.components == [[1, 2], [3, 4]]
    assert curve.source == ["estimated", "estimated", "insufficient", "insufficient"]
    assert curve.note[2] == "nothing links {3, 4} with {1, 2}"


def test_a_bucket_with_pages_in_one_arm_only_measures_nothing():
    """Its click rates would be published as if relevance were examination."""
    kept = draw(np.random.default_rng(9), 400, [0.5, 0.3, 0.2])
    bucket = parse_bucket("1:3")
    alone = BucketArms(bucket, arm_of(kept, bucket), Arm.empty(3))
    assert position_ratios(alone).over == []
    assert pair_ratios(alone).over == []
    curve = combined_curve(SwapCounts(3, {"1:3": alone}), min_clicks=1)
    assert curve.source == ["estimated", "insufficient", "insufficient"]
