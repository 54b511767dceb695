from __future__ import annotations

import doctest

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support import oracle
from ulr.experiments import buckets
from ulr.experiments.buckets import is_shuffle, parse_bucket, permutation


def test_the_examples_in_the_docstrings_hold():
    assert doctest.testmod(buckets).failed == 0


names = st.text(alphabet="0123:,a ", max_size=9)


@given(names | names.map("shuffle".__add__))
def test_exactly_the_names_of_the_plain_grammar_are_parsed(text):
    depth = oracle.bucket_depth(text)
    if depth is None:
        with pytest.raises(ValueError, match="bucket"):
            parse_bucket(text)
    else:
        assert parse_bucket(text).last_position == depth
        assert parse_bucket(text).name == text


sides = st.lists(st.integers(1, 7), min_size=1, max_size=2, unique=True).map(sorted)


@given(sides, sides)
def test_a_swap_moves_only_its_positions(target, source):
    if len(target) != len(source) or target == source:
        return
    name = f"{','.join(map(str, target))}:{','.join(map(str, source))}"
    order = permutation(parse_bucket(name), 9)
    assert sorted(order) == list(range(9))
    assert [order[t - 1] + 1 for t in target] == source
    assert all(order[p - 1] == p - 1 for p in range(1, 10) if p not in {*target, *source})


def test_a_single_swap_undoes_itself():
    order = permutation(parse_bucket("1:5"), 6)
    assert [order[i] for i in order] == list(range(6))


def test_a_shuffle_has_no_arms_and_names_its_depth():
    assert parse_bucket("shuffle").shuffled == 0
    assert parse_bucket("shuffle:5").shuffled == 5
    assert parse_bucket("shuffle:5").positions == ()
    assert parse_bucket("1:5").shuffled is None
    assert [is_shuffle(name) for name in ("shuffle", "shuffle:5", "1:5", None)] == [
        True, True, False, False
    ]  # fmt: skip
