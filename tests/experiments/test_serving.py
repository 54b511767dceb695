from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chisquare

import ulr.experiments.buckets
import ulr.experiments.serving
from tests.support.swap_lab import SwapLab, click_model, queries, single_buckets
from ulr.experiments.plan import all_pairs_of, design
from ulr.experiments.serving import NONE, Assignment, Plan, arrange, assign, load_plan
from ulr.propensity.estimators import swap_curve
from ulr.simulate.browsing import Independent

PLAN = Plan("salt", (("1:2", 0.2), ("1:5", 0.1), ("1,2:2,5", 0.1)))
REQUESTS = [f"request-{i}" for i in range(40_000)]


def test_fractions_and_arms_are_as_planned():
    drawn = Counter(assign(r, PLAN, 10) for r in REQUESTS)
    expected = {NONE: 0.6}
    for bucket, fraction in PLAN.buckets:
        expected |= {Assignment(bucket, arm): fraction / 2 for arm in (False, True)}
    assert set(drawn) == set(expected)
    observed = [drawn[a] for a in expected]
    assert chisquare(observed, np.array(list(expected.values())) * len(REQUESTS)).pvalue > 0.001


def test_an_assignment_is_repeatable_and_another_salt_gives_an_independent_one():
    first = [assign(r, PLAN, 10) for r in REQUESTS[:5000]]
    assert first == [assign(r, PLAN, 10) for r in REQUESTS[:5000]]
    other = [assign(r, PLAN._replace(salt="other"), 10) for r in REQUESTS[:5000]]
    same = sum(a != NONE and a.bucket == b.bucket for a, b in zip(first, other, strict=True))
    assert same / 5000 == pytest.approx(0.2**2 + 0.1**2 + 0.1**2, abs=0.02)


def test_a_page_too_short_for_its_bucket_is_in_none_and_others_are_unchanged():
    for request in REQUESTS[:2000]:
        long, short = assign(request, PLAN, 10), assign(request, PLAN, 4)
        assert short == (long if long.bucket == "1:2" else NONE)


def test_arranging_swaps_only_in_the_swapped_arm():
    documents = list("abcde")
    assert arrange(documents, Assignment("1:5", True)) == list("ebcda")
    assert arrange(documents, Assignment("1,2:2,5", True)) == list("becda")
    assert arrange(documents, Assignment("1:5", False)) == documents
    assert arrange(documents, NONE) == documents


@pytest.mark.parametrize(("bucket", "moved"), [("shuffle", 4), ("shuffle:3", 3)])
def test_every_order_of_a_shuffle_is_equally_likely_and_repeatable(bucket, moved):
    plan = Plan("salt", ((bucket, 0.5),))
    documents = list("abcd")
    orders: Counter[str] = Counter()
    for request in REQUESTS[:10_000]:
        chosen = assign(request, plan, 4)
        shown = arrange(documents, chosen)
        assert shown == arrange(documents, assign(request, plan, 4))
        assert shown[moved:] == documents[moved:]
        if chosen.bucket is None:
            assert shown == documents
        else:
            assert (chosen.bucket, chosen.swapped) == (bucket, True)
            orders["".join(shown)] += 1
    assert len(orders) == {4: 24, 3: 6}[moved]
    assert chisquare(list(orders.values())).pvalue > 0.001


def test_a_shuffle_of_another_salt_has_independent_orders():
    pages = [arrange(range(20), assign("r", Plan(s, (("shuffle", 1.0),)), 20)) for s in "ab"]
    assert pages[0] != pages[1]
    assert assign("r", Plan("a", (("shuffle:9", 1.0),)), 8) == NONE


def test_plans_are_read_and_invalid_ones_refused():
    text = json.dumps({"salt": "s", "buckets": [{"bucket": "1:2", "fraction": 0.5}]})
    assert load_plan(text) == Plan("s", (("1:2", 0.5),))
    for bucket, fraction in (("1:1", 0.1), ("1:2", 1.5), ("1:2", -0.1)):
        bad = {"salt": "s", "buckets": [{"bucket": bucket, "fraction": fraction}]}
        with pytest.raises(ValueError, match=r"fraction|sides"):
            load_plan(json.dumps(bad))


@pytest.mark.parametrize("module", [ulr.experiments.serving, ulr.experiments.buckets])
def test_a_serving_system_needs_nothing_but_the_standard_library(module):
    tree = ast.parse(Path(module.__file__).read_text())
    roots = {n.module for n in ast.walk(tree) if isinstance(n, ast.ImportFrom)}
    roots |= {a.name for n in ast.walk(tree) if isinstance(n, ast.Import) for a in n.names}
    assert {r.split(".")[0] for r in roots} - set(sys.stdlib_module_names) <= {"ulr"}
    assert {r for r in roots if r.startswith("ulr")} <= {"ulr.experiments.buckets"}


def test_the_pages_of_a_plan_follow_the_formula():
    together = np.diag([0.4, 0.1])
    theta = np.array([1.0, 0.5])
    (bucket,) = design(
        together, theta, pages_a_day=1000, fraction=0.5, theta_error=0.1, psi_error=1
    )  # fmt: skip
    below, above = 0.1 + 0.4 * 0.5, 0.4 + 0.1 / 0.5
    kept = 0.1 * 0.9 / below**2 + 0.4 * 0.6 / above**2 + 2 * 0.1 * 0.4 / (below * above)
    swapped = 0.2 * 0.8 / below**2 + 0.2 * 0.8 / above**2 + 2 * 0.2 * 0.2 / (below * above)
    pages = 2 * (kept + swapped) / 0.1**2
    assert bucket.pages == pytest.approx(pages)
    assert bucket.days == pytest.approx(pages / (1000 * 0.5))
    lost = (0.4 + 0.1) - (0.4 * 0.5 + 0.1 / 0.5)
    assert bucket.clicks_lost_a_day == pytest.approx(lost * 1000 * 0.5 / 2)


def test_fractions_of_a_plan_add_up_and_deeper_positions_get_more():
    theta = np.arange(1, 6) ** -1.0
    rate = 0.3 * theta
    together = np.outer(rate, rate)
    np.fill_diagonal(together, rate)
    plan = design(
        together,
        theta,
        pages_a_day=1e6,
        fraction=0.1,
        theta_error=0.02,
        psi_error=0.1,
        pairs=all_pairs_of(5),
    )
    assert sum(b.fraction for b in plan) == pytest.approx(0.1)
    assert [b.bucket for b in plan[:4]] == ["1:2", "1:3", "1:4", "1:5"]
    assert plan[0].fraction < plan[3].fraction


def test_the_planned_pages_give_the_planned_error():
    positions = 5
    theta = np.arange(1, positions + 1) ** -1.0
    relevance = queries(np.random.default_rng(0), 8, positions)
    lab = SwapLab(click_model(Independent(theta), positions), relevance, single_buckets(positions))
    rates = lab.bits.T @ (lab.arms["1:2"][0][:, None] * lab.bits)
    plan = design(
        rates, theta, pages_a_day=1e5, fraction=0.1, theta_error=0.03, psi_error=1
    )  # fmt: skip
    for bucket in plan:
        one = SwapLab(click_model(Independent(theta), positions), relevance, [bucket.bucket])
        counts = one.draw(np.random.default_rng(1), round(bucket.pages))
        k = int(bucket.bucket[2:])
        curve = swap_curve(counts, "single_swap", min_clicks=1)
        assert curve.standard_error[k - 1] / theta[k - 1] == pytest.approx(0.03, rel=0.1)
