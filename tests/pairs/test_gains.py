"""Weights of graded feedback: the sum over levels, by a plain loop over sessions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.pairs.test_weights import EXAMINATION, GO_ON, KAPPA, PHI, PSI, THETA, K, dense
from tests.support import oracle_pairs as oracle
from tests.support.pair_inputs import EXAMINATION as KNOWN
from tests.support.pair_inputs import FEATURES, GROUPS, features_of, groups_of
from ulr.errors import UserError
from ulr.evaluation.shown import load_shown
from ulr.features.join import join_features
from ulr.features.window import cut_window, load_window, only_segment
from ulr.groups.levels import with_levels
from ulr.kernels.layout import Histograms, Patterns
from ulr.pairs.config import make_pair_config
from ulr.pairs.gains import increments_of, sum_clicks
from ulr.pairs.table import build_pair_table
from ulr.pairs.weighting import weigh_histograms, weigh_levels
from ulr.pairs.weightings import weightings_of
from ulr.pairs.weights import (
    LEARNS_POSITIONS,
    METHODS,
    NEEDS_ALL_PAIRS,
    stopping_of,
    weight_table,
)

GAINS = (1.0, 3.0, 10.0)
INCREMENTS = (1.0, 2.0, 7.0)


def levels_of(sessions: dict[tuple, int], levels: int = 3) -> list[Histograms]:
    """Return one group's histograms by level. sessions: number of them by vector of levels."""
    docs = np.array([0, len(next(iter(sessions)))])
    counts = np.array(list(sessions.values()))
    return [
        Histograms(docs, Patterns(
            np.array([0, counts.size]),
            np.array([sum((y >= level) << k for k, y in enumerate(v)) for v in sessions]),
            np.array([0, counts.size]), counts))
        for level in range(1, levels + 1)
    ]  # fmt: skip


vector = st.tuples(*[st.sampled_from([0, 0, 1, 1, 2, 3])] * K)


@pytest.mark.parametrize("session", ["none", "idcg"])
@pytest.mark.parametrize("method", METHODS)
@given(st.dictionaries(vector, st.integers(1, 9), min_size=1, max_size=8))
@settings(max_examples=10, deadline=None)
def test_weights_are_the_sum_over_levels_and_sessions(method, session, sessions):
    want = np.zeros((K, K))
    for levels, count in sessions.items():
        clicks = [int(y > 0) for y in levels]
        for level, increment in enumerate(INCREMENTS, start=1):
            bits = [int(y >= level) for y in levels]
            u = oracle.session_weights(
                bits, THETA, PSI, "counts" if method in LEARNS_POSITIONS else method, prs_clip=2.0,
                alpha=EXAMINATION.alpha, beta=EXAMINATION.beta, kappa=KAPPA, stop=(PHI, GO_ON),
                every_click=clicks,
            )  # fmt: skip
            weight = 1 / oracle.ideal_dcg(bits) if session == "idcg" and any(bits) else 1
            want += increment * weight * count * np.array(u)
    table = weight_table(method, EXAMINATION, prs_clip=2.0)[None]
    pairs, _ = weigh_levels(
        levels_of(sessions), INCREMENTS, np.zeros(1), table, table,
        all_pairs=method in NEEDS_ALL_PAIRS, session=session,
        counts=[weightings_of(method)[0].counts], stopping=stopping_of([EXAMINATION]),
    )  # fmt: skip
    np.testing.assert_allclose(dense(pairs, 0, K), want, rtol=1e-5, atol=1e-3)


def test_cascade_weights_of_every_level_have_their_expectation_under_cascade():
    """Users stop after clicks of any level; gains are expected from the document alone."""
    rng = np.random.default_rng(1)
    relevance = np.array([0.5, 0.7, 0.3, 0.6])
    deeper = np.array([0.5, 0.2, 0.8, 0.4])  # probability of level 2 given a click
    n, size = 400_000, relevance.size
    clicked = np.zeros((n, size), int)
    there = np.ones(n, bool)
    for k in range(size):
        clicked[:, k] = there & (rng.random(n) < relevance[k])
        there &= ~((clicked[:, k] > 0) & (rng.random(n) < PHI)) & (rng.random(n) < GO_ON)
    levels = clicked + clicked * (rng.random((n, size)) < deeper)
    vectors, counts = np.unique(levels, axis=0, return_counts=True)
    sessions = dict(zip(map(tuple, vectors.tolist()), counts.tolist(), strict=True))
    table = weight_table("cascade", EXAMINATION)[None][..., :size, :size]
    pairs, _ = weigh_levels(
        levels_of(sessions, 2), (1.0, 4.0), np.zeros(1), table, table,
        counts=[weightings_of("cascade")[0].counts], stopping=stopping_of([EXAMINATION]),
    )  # fmt: skip
    r, d = relevance, relevance * deeper
    want = np.outer(r, 1 - r) + 4 * np.outer(d, 1 - d)
    got = dense(pairs, 0, size) / n
    np.testing.assert_allclose(got[~np.eye(size, dtype=bool)], want[~np.eye(size, dtype=bool)],
                               atol=0.06)  # fmt: skip


def test_one_level_of_gain_1_gives_the_bytes_of_clicks():
    levels = levels_of({(1, 0, 1, 0, 0, 0): 3, (0, 1, 0, 0, 0, 1): 2}, 1)
    table = weight_table("joint", EXAMINATION)[None]
    plain, health = weigh_histograms(levels[0], np.zeros(1), table, table)
    one, same = weigh_levels(levels, (1.0,), np.zeros(1), table, table)
    for a, b in zip((*plain, *health.columns), (*one, *same.columns), strict=True):
        assert a.tobytes() == b.tobytes()


def test_a_gain_scales_the_health_of_the_weights():
    levels = levels_of({(1, 0, 1, 0, 0, 0): 3, (0, 1, 0, 0, 0, 1): 2}, 1)
    table = weight_table("robust", EXAMINATION)[None]
    _, one = weigh_levels(levels, (1.0,), np.zeros(1), table, table)
    _, two = weigh_levels(levels, (2.0,), np.zeros(1), table, table)
    assert two.rows()[0][1]["effective_pairs"] == one.rows()[0][1]["effective_pairs"]
    assert two.rows()[0][1]["weight"] == 2 * one.rows()[0][1]["weight"]


@pytest.mark.parametrize(
    ("gains", "names", "increments"),
    [({}, ("click",), (1.0,)), ({}, ("click", "cart"), (1.0, 0.0)),
     ({"click": 1, "cart": 3}, ("click", "cart"), (1, 2)),
     ({"cart": 3, "click": 1}, ("click", "view", "cart"), (1, 0, 2)),
     ({"cart": 3}, ("click", "cart"), (0, 3)), ({"order": 2}, ("click",), (2,))],
)  # fmt: skip
def test_increments_are_the_differences_of_the_gains(gains, names, increments):
    assert increments_of(gains, names) == increments


def test_gains_that_the_groups_do_not_count_are_one_line():
    with pytest.raises(UserError, match=r"log\.feedback has the event cart, which these groups"):
        increments_of({"click": 1, "cart": 3}, ("click",))
    with pytest.raises(UserError, match="orders the events as cart, click"):
        increments_of({"click": 3, "cart": 1}, ("click", "cart"))


def graded_groups(rng: np.random.Generator, queries: int = 5) -> tuple[pa.Table, dict]:
    """Return groups of two levels whose lists are shown in two orders, and their sessions."""
    rows, sessions = [], {}
    for q in range(queries):
        for order in (["x", "y", "z"], ["z", "x", "y"]):
            drawn: dict[tuple, int] = {}
            for v in rng.integers(0, 3, (int(rng.integers(3, 9)), 3)).tolist():
                drawn[tuple(v)] = drawn.get(tuple(v), 0) + 1
            words = {
                tuple(sum((y >= lv) << k for k, y in enumerate(v)) for lv in (1, 2)): n
                for v, n in drawn.items()
            }
            rows.append({
                "query_id": f"q{q}", "segment": "s" if q % 2 else None, "bucket": None,
                "swapped": None, "ranking": hash(tuple(order)) % 2**62, "doc_ids": order,
                "patterns": [w for pattern in words for w in pattern],
                "counts": list(words.values()),
            })  # fmt: skip
            sessions[f"q{q}", tuple(order)] = drawn
    return groups_of(*rows), sessions


def test_a_window_keeps_the_levels_when_it_is_cut_and_divided():
    groups, sessions = graded_groups(np.random.default_rng(2))
    features = features_of([(f"q{q}", d) for q in range(5) for d in "xyz"])
    window = load_window(join_features(groups, features), None)

    def clicks(own, query, order, depth):
        want = [sum(n * (v[k] > 0) + 4 * n * (v[k] > 1) for v, n in sessions[query, order].items())
                for k in range(depth)]  # fmt: skip
        shown = load_shown(own, (1.0, 4.0))
        names = [own.names[int(row)].as_py() for row in own.row_of]
        at = [d for d in range(len(names)) if own.query_ids[int(shown.query[d])].as_py() == query]
        got = {}
        for d in at:
            got.setdefault(int(shown.group[d]), []).append((names[d], float(shown.clicks[d])))
        assert list(zip(order, want, strict=False)) in got.values()

    for query, order in sessions:
        clicks(window, query, order, 3)
        clicks(cut_window(window, 2), query, order, 2)
        if query in ("q1", "q3"):
            clicks(only_segment(window, "s"), query, order, 3)


@pytest.mark.parametrize("grouping", ["ranking", "query"])
@pytest.mark.parametrize("method", ["joint", "dla", "auto", "cascade"])
def test_pairs_of_levels_are_the_weighted_sum_of_the_pairs_of_each_level(method, grouping):
    if method == "dla" and grouping == "query":
        pytest.skip("dla needs positions")
    groups, _ = graded_groups(np.random.default_rng(3))
    features = features_of([(f"q{q}", d) for q in range(5) for d in "xyz"])
    options = {"grouping": grouping, "co_click_variance": 0.5}
    config = make_pair_config(method, KNOWN, **options)

    def pairs(table, increments):
        own = join_features(table, features)
        built, report = build_pair_table(own, replace(config, increments=increments))
        return built, report

    both, report = pairs(groups, (1.0, 4.0))
    first, _ = pairs(groups, (1.0, 0.0))
    total, _ = pairs(groups, (0.0, 1.0))
    for name in [n for n in both.column_names if n.startswith("u_") or n == "clicks"]:
        parts = [np.concatenate(t[name].to_pylist()) for t in (both, first, total)]
        np.testing.assert_allclose(parts[0], parts[1] + 4 * parts[2], rtol=1e-4, atol=1e-4)
    lowest = with_levels(groups, ("click", "cart"), ("click",))
    if method != "cascade":
        alone, _ = pairs(lowest, (1.0,))
        assert alone["u_ij"].equals(first["u_ij"])
        assert alone["clicks"].equals(first["clicks"])
    assert report.size.metrics()["effective_clicks"] > 0


def test_plain_groups_give_the_same_pair_table_with_one_named_level():
    window = join_features(GROUPS, FEATURES)
    config = make_pair_config("joint", KNOWN)
    plain, _ = build_pair_table(window, config)
    named, _ = build_pair_table(
        window, replace(config, increments=increments_of({"click": 1}, ("click",)))
    )
    assert plain.equals(named)


def test_clicks_count_with_their_gains_to_a_power():
    levels = levels_of({(0, 1, 2, 3, 0, 0): 2, (3, 0, 2, 0, 0, 0): 1})
    want = [[10, 2, 9, 20, 0, 0], [100, 2, 27, 200, 0, 0]]
    for power in (1, 2):
        got = sum_clicks(levels, INCREMENTS, power)
        np.testing.assert_array_equal(got, want[power - 1])
