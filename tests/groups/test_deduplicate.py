"""Repeated session ids on their way to the driver."""

from __future__ import annotations

import numpy as np
import pytest

from ulr.engine.shuffle import pack_bytes
from ulr.groups.deduplicate import _keep_repeated, held_by_one


@pytest.mark.parametrize("partitions", [1, 8, 64, 2000])
def test_the_driver_holds_little_over_twice_the_limit(partitions):
    limit = 5_000_000
    found = np.repeat(np.arange(limit, dtype=np.uint64), 2)  # more in one part than it may send
    most = held_by_one(limit, partitions)
    (sent,) = _keep_repeated(iter([pack_bytes(0, "hashes", found.tobytes())]), limit=most)
    content = sent["repeated"][0].as_py()
    assert partitions * len(content) <= 8 * (2 * limit + 1001 * partitions)


def test_a_fair_share_is_always_sent():
    for partitions in (1, 3, 64):
        assert held_by_one(5_000_000, partitions) >= 5_000_000 // partitions
