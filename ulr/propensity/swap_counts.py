"""What a swap experiment leaves behind: click and co-click totals of each bucket's two arms.

Totals add: a window is the sum of its dates, and all traffic is the sum of its segments. At 50
positions a segment has half a million of them, so they go from columns to matrices without a
Python object each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import whole
from ulr.experiments.buckets import Bucket, parse_bucket, permutation

WHOLE = -1  # the condition "every position of the bucket was clicked"


@dataclass(frozen=True)
class Arm:
    """One arm of one bucket. Matrices are indexed by position - 1.

    sessions: pages in the arm. together: symmetric, sessions that clicked both positions, clicks
    on the diagonal. given: the same among sessions that clicked a position of the bucket, or
    WHOLE of it; these are the triple and quadruple clicks that covariances of co-clicks need.
    """

    sessions: int
    together: np.ndarray
    given: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def empty(cls, positions: int) -> Arm:
        """No sessions yet."""
        return cls(0, np.zeros((positions, positions), np.int64))

    @property
    def clicks(self) -> np.ndarray:
        """Clicks per position."""
        return np.diag(self.together)

    def layer(self, condition: int) -> np.ndarray:
        """Co-clicks under a condition, 0 for none; made of zeros if there were none."""
        found = self.together if condition == 0 else self.given.get(condition)
        return np.zeros_like(self.together) if found is None else found

    def __add__(self, other: Arm) -> Arm:
        conditions = {*self.given, *other.given}
        return Arm(
            self.sessions + other.sessions,
            self.together + other.together,
            {c: self.layer(c) + other.layer(c) for c in conditions},
        )


@dataclass(frozen=True)
class BucketArms:
    """A bucket and its two arms: pages as they were ranked, and pages with the swap applied."""

    bucket: Bucket
    kept: Arm
    swapped: Arm

    @property
    def moves(self) -> dict[int, int]:
        """Ranked position -> position in the swapped arm, for the documents that move."""
        order = permutation(self.bucket, self.bucket.last_position)
        return {was + 1: now + 1 for now, was in enumerate(order) if was != now}


@dataclass(frozen=True)
class SwapCounts:
    """All buckets of some traffic, by name, and the pages that took part in none."""

    positions: int
    buckets: dict[str, BucketArms] = field(default_factory=dict)
    outside: Arm | None = None

    @property
    def sessions(self) -> int:
        """Pages in experiments."""
        return sum(b.kept.sessions + b.swapped.sessions for b in self.buckets.values())


def counts_of(rows: pa.Table, positions: int) -> SwapCounts:
    """Rows of `swap_counts_schema` as arms, all segments among them added up.

    Clicks below `positions` and buckets that reach below them are left out.
    """
    rows = rows.filter(pc.less_equal(rows["l"], positions))
    bucket = whole(rows["bucket"]).dictionary_encode()
    names = bucket.dictionary.to_pylist()
    code = pc.fill_null(bucket.indices, len(names)).to_numpy(zero_copy_only=False)
    swapped = pc.fill_null(rows["swapped"], False).to_numpy()
    part = 2 * code.astype(np.int64) + swapped
    order = np.argsort(part, kind="stable")
    ends = np.searchsorted(part[order], np.arange(2 * len(names) + 3))
    columns = [rows[name].to_numpy()[order] for name in ("given", "k", "l", "sessions")]

    def arm(number: int) -> Arm:
        own = slice(ends[number], ends[number + 1])
        return _arm(*(column[own] for column in columns), positions)

    places = {name: 2 * i for i, name in enumerate(names)}
    buckets = {
        name: BucketArms(parse_bucket(name), arm(places[name]), arm(places[name] + 1))
        for name in sorted(names)
        if parse_bucket(name).last_position <= positions
    }
    outside = arm(2 * len(names))
    return SwapCounts(positions, buckets, outside if outside.sessions else None)


def _arm(
    given: np.ndarray, k: np.ndarray, v: np.ndarray, sessions: np.ndarray, positions: int
) -> Arm:
    """One arm from its totals; a row without positions (k = 0) counts the arm's pages."""
    pairs = k > 0
    layers = {}
    for condition in np.unique(np.append(given[pairs], 0)).tolist():
        own = pairs & (given == condition)
        upper = np.zeros((positions, positions), np.int64)
        np.add.at(upper, (k[own] - 1, v[own] - 1), sessions[own])
        layers[condition] = upper + np.triu(upper, 1).T
    return Arm(int(sessions[~pairs].sum()), layers.pop(0), layers)
