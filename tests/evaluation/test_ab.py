"""A/B comparisons against plain loops, their p-values without a difference, and their power."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from tests.support.ab_loops import difference_by_loops, null_pages
from ulr.evaluation.ab.totals import (
    CLICKS,
    METRICS,
    NO_QUERIES,
    Served,
    compare,
    read_totals,
    sign_test,
    to_documents,
    total,
)
from ulr.kernels.matched import draw_successes


def served_of(rng, **options):
    served = null_pages(rng, **options)
    keep = served.pages.sum(axis=1) > 0
    return Served(served.pages[keep], served.events[:, keep], served.seeds[keep])


def test_differences_and_their_variance_are_those_of_plain_loops():
    served = served_of(np.random.default_rng(1), queries=40, pages=500, share=0.3)
    (na, nb) = served.pages.T.astype(float)
    for result, events in zip(compare(total(served)), served.events, strict=True):
        xa, xb = events.T.astype(float)
        difference, variance, dof = difference_by_loops(na, xa, nb, xb)
        assert result.difference == pytest.approx(difference)
        reach = stats.t.ppf(0.975, dof) * np.sqrt(variance)
        assert result.upper - result.difference == pytest.approx(reach, rel=1e-9)
        p = 2 * stats.t.sf(abs(difference) / np.sqrt(variance), dof)
        assert result.p_value == pytest.approx(p, rel=1e-9)
        assert result.relative == pytest.approx(xa.sum() / na.sum() / (xb.sum() / nb.sum()) - 1)


def test_totals_of_parts_add_up_and_survive_text():
    served = served_of(np.random.default_rng(2))
    first, rest = ((slice(0, 9)), slice(9, None))
    parts = [Served(served.pages[p], served.events[:, p], served.seeds[p]) for p in (first, rest)]
    added = NO_QUERIES + read_totals(total(parts[0]).to_json()) + total(parts[1])
    whole = total(served)
    np.testing.assert_allclose(added.shared, whole.shared)
    np.testing.assert_allclose(added.metrics, whole.metrics)
    assert added.pages == tuple(served.pages.sum(axis=0))


def test_wins_and_losses_compare_equal_numbers_of_pages():
    pages = np.array([[4, 4], [4, 4], [4, 4], [2, 9], [9, 2], [3, 0]])
    clicked = np.array([[3, 1], [1, 3], [2, 2], [2, 0], [9, 1], [3, 0]])
    events = np.stack([clicked] * len(METRICS))
    served = Served(pages, events, np.arange(6, dtype=np.uint64))
    for result in compare(total(served)):
        if result.name == CLICKS:
            assert result.win is None
            assert result.sign_p_value is None
        else:
            # Rows 1, 4 and 5 are won for any draw; the last query has no page of b.
            assert (result.win, result.same, result.loss) == (3, 1, 1)
            assert result.sign_p_value == pytest.approx(2 * (1 + 4) / 16)


def test_drawn_successes_are_hypergeometric_and_depend_on_the_query_only():
    n = 40_000
    pages, good, drawn = (np.full(n, v) for v in (9, 4, 5))
    seeds = np.random.default_rng(3).integers(0, 2**63, n).astype(np.uint64)
    result = draw_successes(pages, good, drawn, seeds)
    seen = np.bincount(result, minlength=6)
    expected = n * stats.hypergeom(9, 4, 5).pmf(np.arange(5))
    assert seen[5] == 0
    assert stats.chisquare(seen[:5], expected).pvalue > 1e-3
    back = draw_successes(pages[::-1].copy(), good, drawn, seeds[::-1].copy())
    np.testing.assert_array_equal(back[::-1], result)
    every = draw_successes(pages, good, pages, seeds)
    np.testing.assert_array_equal(every, good)


@pytest.mark.parametrize(("zipf", "share"), [(1.0, 0.5), (1.3, 0.2)])
def test_p_values_are_uniform_without_a_difference_under_zipf_traffic(zipf, share):
    """With the exponent 1.3, a quarter of the pages are those of one query."""
    rng, clustered, signs = np.random.default_rng(7), [], []
    for _ in range(600):
        results = compare(total(null_pages(rng, zipf=zipf, share=share, pages=6_000)))
        clustered.append(results[0].p_value)
        signs.append(results[1].sign_p_value)
    for level in (0.01, 0.05, 0.2, 0.5):
        spread = np.sqrt(level * (1 - level) / 600)
        rejected = np.mean(np.array(clustered) < level)
        assert abs(rejected - level) < 4 * spread + 0.02 * level
        assert np.mean(np.array(signs) < level) < level + 4 * spread
    assert stats.kstest(clustered, "uniform").pvalue > 1e-4


def test_a_test_of_proportions_on_pages_would_be_wrong_where_queries_are_assigned():
    """Rankers that serve whole queries: pages of a query are not independent."""
    rng, ours, naive = np.random.default_rng(9), [], []
    for _ in range(300):
        served = null_pages(rng, queries=300, pages=6_000, zipf=0.7)
        side = rng.random(300) < 0.5
        pages = served.pages.sum(axis=1)[:, None] * np.stack([side, ~side], axis=1)
        events = served.events.sum(axis=2)[:, :, None] * np.stack([side, ~side], axis=1)
        result = compare(total(Served(pages, events, served.seeds)))[0]
        ours.append(result.p_value)
        n = pages.sum(axis=0)
        p = events[0].sum() / n.sum()
        z = result.difference / np.sqrt(p * (1 - p) * (1 / n).sum())
        naive.append(2 * stats.norm.sf(abs(z)))
    assert np.mean(np.array(naive) < 0.05) > 0.3
    assert np.mean(np.array(ours) < 0.05) < 0.05 + 4 * np.sqrt(0.05 * 0.95 / 300)


def test_a_known_difference_is_found_and_covered():
    rng, covered, found = np.random.default_rng(11), 0, 0
    for _ in range(200):
        served = null_pages(rng, queries=200, pages=8_000, zipf=0.8)
        lost = rng.binomial(served.events[3, :, 1], 0.15)  # b loses 15% of its pages with a click
        events = served.events.copy()
        events[3, :, 1] -= lost
        rate = served.events[3].sum() / served.pages.sum()
        (result,) = [r for r in compare(total(served._replace(events=events))) if r.name == "ctr"]
        covered += result.lower <= 0.15 * rate <= result.upper
        found += result.p_value < 0.05 and result.difference > 0
    assert covered >= 180
    assert found >= 180


def test_one_query_and_equal_rates_have_no_evidence():
    one = Served(np.array([[5, 5]]), np.full((5, 1, 2), 2), np.zeros(1, np.uint64))
    for result in compare(total(one)):
        assert result.p_value == 1.0
    assert to_documents(compare(total(one)))[0]["lower"] is None
    assert sign_test(0, 0) == 1.0
    assert sign_test(8, 1) == pytest.approx(2 * 10 / 512)
