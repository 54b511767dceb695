"""Arrow columns taken apart and put together."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from ulr.engine.columns import hashes, list_array, lists, offsets_and_values, patterns_of

rows_of_numbers = st.lists(st.lists(st.integers(0, 9), max_size=4), max_size=6)


@given(rows_of_numbers, st.integers(0, 3))
def test_a_list_column_taken_apart_is_put_together_again(rows, start):
    column = pa.array(rows, pa.list_(pa.int64())).slice(start)
    offsets, values = offsets_and_values(column)
    assert list_array(np.diff(offsets), values).to_pylist() == rows[start:]
    assert offsets[0] == 0


def test_a_null_list_has_length_0():
    column = lists(pa.chunked_array([[[1, 2], None], [[3]]]))
    assert column.lengths.tolist() == [2, 0, 1]
    assert column.values.to_pylist() == [1, 2, 3]


def test_patterns_of_a_slice_are_those_of_its_rows():
    table = pa.table({"patterns": [[1], [2, 3], [4]], "counts": [[5], [6, 7], [8]]}).slice(1, 1)
    patterns = patterns_of(table)
    start, end = patterns.word_offsets
    assert patterns.words[start:end].tolist() == [2, 3]
    start, end = patterns.count_offsets
    assert patterns.counts[start:end].tolist() == [6, 7]


def test_a_column_without_rows_has_no_hashes():
    assert hashes(pa.chunked_array([], pa.string())).tolist() == []
    assert hashes(pa.nulls(0, pa.string())).tolist() == []
