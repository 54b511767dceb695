"""The sums within rankings against plain loops over sessions."""

import numpy as np

from tests.support.pair_samples import histograms
from ulr.kernels.within_rankings import ABOVE, UNITS, RankingSums, add_rankings

K, WIDE, BLOCKS = 5, 70, 4
MOVED = np.array([[0, 2, -1, -1], [1, 3, -1, -1]])


def empty():
    shapes = ((BLOCKS, K, K, 3), (BLOCKS, K, 2), (2, BLOCKS), (2, BLOCKS, 4, ABOVE))
    return RankingSums(*(np.zeros(shape, np.int64) for shape in shapes))


def expected(groups, block, arm):
    sums = [np.zeros(x.shape) for x in empty()]
    for g, (size, patterns) in enumerate(groups):
        sessions = [bits[:K] for bits, count in patterns.items() for _ in range(count)]
        n, depth = len(sessions), min(size, K)
        for k in range(depth):
            for v in range(k + 1, depth):
                together = sum(s[k] * s[v] for s in sessions)
                apart = sum(
                    s[k] * t[v]
                    for a, s in enumerate(sessions)
                    for b, t in enumerate(sessions)
                    if a != b
                )
                if n > 1:
                    sums[0][block[g], k, v] += [(n - 1) * together / n, apart / n, together]
            if k and n > 1:
                first = [s[k] for s in sessions if s[0]]
                others = [s[k] for s in sessions if not s[0]]
                sums[1][block[g], k, 0] += sum(first) * len(others) / n
                sums[1][block[g], k, 1] += sum(others) * len(first) / n
        if arm[g] >= 0:
            sums[2][arm[g], block[g]] += n
            for s, index in enumerate(MOVED[arm[g]]):
                for clicks in sessions:
                    if 0 <= index < depth and clicks[index]:
                        sums[3][arm[g], block[g], s, sum(clicks[:index])] += 1
    return sums


def test_the_sums_equal_plain_loops_over_sessions():
    rng = np.random.default_rng(4)
    groups = []
    for size in [*rng.integers(1, 8, 40).tolist(), WIDE]:
        patterns = {}
        for _ in range(int(rng.integers(1, 12))):
            bits = tuple((rng.random(size) < 0.4).astype(int).tolist())
            patterns[bits] = patterns.get(bits, 0) + int(rng.integers(1, 4))
        groups.append((size, patterns))
    block, arm = rng.integers(0, BLOCKS, 41), rng.integers(-1, 2, 41)
    sums = empty()
    add_rankings(histograms(groups).patterns, block, arm, MOVED, sums)
    want = expected(groups, block, arm)
    units = np.array([UNITS, UNITS, 1])
    np.testing.assert_allclose(sums.pairs / units, want[0], atol=41 / UNITS)
    np.testing.assert_allclose(sums.stops / UNITS, want[1], atol=41 / UNITS)
    np.testing.assert_array_equal(sums.sessions, want[2])
    np.testing.assert_array_equal(sums.clicks, want[3])
