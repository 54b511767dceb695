"""The number of repeated session ids that reducers send to the driver."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from ulr.groups.deduplicate import keep_repeated, reducer_limit


@pytest.mark.parametrize("partitions", [1, 8, 64, 2000])
def test_the_driver_receives_little_more_than_twice_the_limit(partitions):
    limit = 500_000
    repeated = np.repeat(np.arange(limit, dtype=np.uint64), 2)  # more than a partition may send
    limit_per_reducer = reducer_limit(limit, partitions)
    sent = keep_repeated([pa.py_buffer(repeated.tobytes())], limit=limit_per_reducer)
    assert partitions * sent.nbytes <= 8 * (2 * limit + 1001 * partitions)


def test_the_limit_of_a_reducer_is_at_least_its_even_share():
    for partitions in (1, 3, 64):
        assert reducer_limit(5_000_000, partitions) >= 5_000_000 // partitions
