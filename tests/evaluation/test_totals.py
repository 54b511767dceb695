import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.evaluation_loops import ratio
from ulr.evaluation.totals import Column, Key, Totals, difference, finish, read_totals, total

number = st.floats(-50, 50)
queries = st.lists(st.tuples(number, st.floats(0.5, 20)), min_size=2, max_size=12)
KEY = Key("m", None, None, None, "dcg")


def columns(rows, name="dcg"):
    x, w = (np.array(side, float) for side in zip(*rows, strict=True))
    return [Column(name, None, x, w)]


def estimate(rows):
    return total(columns(rows), "m", None).estimates()[KEY]


@given(queries)
def test_value_and_standard_error_equal_a_plain_loop(rows):
    value, error = ratio(*zip(*rows, strict=True))
    got = estimate(rows)
    assert got.value == pytest.approx(value, abs=1e-9)
    assert got.standard_error == pytest.approx(error, rel=1e-6, abs=1e-5)


@given(queries, queries)
def test_parts_add_up_to_the_whole(a, b):
    parts = total(columns(a), "m", None) + total(columns(b), "m", None)
    np.testing.assert_allclose(
        parts.sums[KEY], total(columns(a + b), "m", None).sums[KEY], atol=1e-6
    )
    assert parts.sums[KEY][0] == len(a) + len(b)


def test_adding_no_totals_changes_nothing_and_json_keeps_every_bit():
    totals = total(columns([(1 / 3, 1.0), (0.7, 2.0)]), "m", "mobile", against="logging")
    for other in (totals + Totals(), Totals() + totals, read_totals(totals.to_json())):
        ((key, sums),) = other.sums.items()
        assert key == Key("m", "logging", "mobile", None, "dcg")
        np.testing.assert_array_equal(sums, totals.sums[key])


def test_equal_weights_give_the_mean_and_its_usual_standard_error():
    got = estimate([(1.0, 1.0), (2.0, 1.0), (6.0, 1.0)])
    assert got.value == 3.0
    assert got.standard_error == pytest.approx(math.sqrt((4 + 1 + 9) / 2 / 3))
    assert got.upper - got.value == pytest.approx(4.302653 * got.standard_error, rel=1e-5)


def test_more_queries_tighten_the_interval():
    rng = np.random.default_rng(1)
    rows = [(x, 1.0) for x in rng.normal(size=400)]
    few, many = estimate(rows[:40]), estimate(rows)
    assert many.upper - many.lower < 0.5 * (few.upper - few.lower)


def test_no_weight_gives_no_estimate_and_one_query_an_infinite_interval():
    assert finish(np.zeros(6)) is None
    one = estimate([(3.0, 2.0)])
    assert (one.value, one.upper, one.p_value) == (1.5, math.inf, 1.0)


def test_a_difference_of_two_models_is_paired():
    noise = np.random.default_rng(2).normal(size=100) * 10
    ones = np.ones(100)
    first = [Column("dcg", None, noise + 0.1 + 0.01 * np.cos(np.arange(100)), ones)]
    second = [Column("dcg", None, noise, ones)]
    gap = total(difference(first, second), "m", None, against="n").estimates()[
        KEY._replace(against="n")
    ]
    assert gap.value == pytest.approx(0.1, abs=0.002)
    assert gap.p_value < 1e-6
    assert (
        total(first, "m", None).estimates()[KEY].standard_error > 0.5
    )  # unpaired, it would not be significant


def test_equal_models_have_a_difference_of_zero():
    same = columns([(1.0, 1.0), (5.0, 1.0)])
    gap = total(difference(same, same), "m", None).estimates()[KEY]
    assert (gap.value, gap.standard_error, gap.p_value) == (0.0, 0.0, 1.0)
