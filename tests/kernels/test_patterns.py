from __future__ import annotations

import numpy as np

from ulr.kernels.patterns import count_positions


def test_counting_positions_of_no_groups_returns_empty_arrays():
    none = np.zeros(0, np.int64)
    start = np.zeros(1, np.int32)
    sessions, clicks = count_positions(none, start, none, start, none)
    assert sessions.size == clicks.size == 0
