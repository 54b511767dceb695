from __future__ import annotations

import numpy as np

from ulr.kernels.layout import Patterns
from ulr.kernels.patterns import count_positions


def test_counting_positions_of_no_groups_returns_empty_arrays():
    none, start = np.zeros(0, np.int64), np.zeros(1, np.int64)
    sessions, clicks = count_positions(none, Patterns(start, none, start, none))
    assert sessions.size == clicks.size == 0
