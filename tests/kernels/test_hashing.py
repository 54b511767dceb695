from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tests.support import oracle
from ulr.engine.columns import hashes
from ulr.kernels.hashing import GOLDEN, splitmix64


def test_splitmix64_gives_the_published_sequence_of_seed_0():
    states = np.arange(1, 4, dtype=np.uint64) * GOLDEN
    expected = [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F]
    assert splitmix64(states).tolist() == expected


@given(st.lists(st.text(max_size=80), min_size=1, max_size=20))
def test_strings_hash_as_the_specification_says(texts):
    expected = [oracle.xxhash64(text.encode()) for text in texts]
    assert hashes(pa.array(texts)).tolist() == expected


@given(st.lists(st.text(max_size=40), min_size=4, max_size=9))
def test_a_slice_hashes_like_the_whole(texts):
    array = pa.array(texts)
    assert hashes(array.slice(2)).tolist() == hashes(array)[2:].tolist()


def test_hashes_equal_those_of_spark(spark):
    texts = ["", "a", "abcdefgh", "0123456789ab", "x" * 31, "y" * 32, "z" * 100, "köln"]
    frame = spark.createDataFrame([(t,) for t in texts], "t string")
    expected = [row[0] % 2**64 for row in frame.selectExpr("xxhash64(t)").collect()]
    assert hashes(pa.array(texts)).tolist() == expected


def test_the_ranking_hash_equals_that_of_spark_sql(spark):
    docs = ["d1", "d2", "a much longer document identifier than the others"]
    frame = spark.createDataFrame([(docs,)], "doc_ids array<string>")
    (row,) = frame.selectExpr("xxhash64(transform(doc_ids, d -> xxhash64(d)))").collect()
    assert row[0] == oracle.ranking_hash(docs)
