"""The set of shown queries contains its queries and no others."""

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ulr.engine.columns import hashes
from ulr.features.shown import ShownQueries


@given(st.lists(st.text(max_size=5), min_size=1, max_size=50, unique=True), st.data())
def test_a_query_of_the_set_is_always_found(names, data):
    cut = data.draw(st.integers(0, len(names)))
    parts = [hashes(pa.array(part, pa.string())) for part in (names[:cut], names[cut:])]
    assert ShownQueries.of(parts).contains(pa.array(names)).all()


def test_no_other_query_is_found():
    shown = pa.array([f"shown {n}" for n in range(5000)])
    other = pa.array([f"other {n}" for n in range(5000)])
    queries = ShownQueries.of([hashes(shown)])
    assert queries.contains(shown).all()
    assert not queries.contains(other).any()
    assert queries.bits.size * 8 <= 2 * 16 * 5001


def test_no_queries_and_no_ids():
    assert not ShownQueries.of([]).contains(pa.array(["a"])).any()
    nothing = ShownQueries.of([np.zeros(0, np.uint64)])
    assert nothing.contains(pa.array([], pa.string())).size == 0
