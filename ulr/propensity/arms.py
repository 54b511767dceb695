"""What a swap experiment leaves behind: click and co-click totals of each bucket's two arms.

Totals add: a window is the sum of its dates, and all traffic is the sum of its segments.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from ulr.buckets import Bucket, parse_bucket, permutation

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
        if condition == 0:
            return self.together
        return self.given.setdefault(condition, np.zeros_like(self.together))

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

    def __add__(self, other: BucketArms) -> BucketArms:
        return BucketArms(self.bucket, self.kept + other.kept, self.swapped + other.swapped)

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

    def __add__(self, other: SwapCounts) -> SwapCounts:
        buckets = dict(self.buckets)
        for name, arms in other.buckets.items():
            buckets[name] = buckets[name] + arms if name in buckets else arms
        outside = [arm for arm in (self.outside, other.outside) if arm is not None]
        total = sum(outside[1:], outside[0]) if outside else None
        return SwapCounts(self.positions, buckets, total)


def pool_counts(parts: Iterable[SwapCounts], positions: int) -> SwapCounts:
    """The sum of any number of them, none included."""
    return sum(parts, SwapCounts(positions))


def counts_by_segment(rows: pa.Table, positions: int) -> dict[str | None, SwapCounts]:
    """Rows of `swap_counts_schema` as arms, one SwapCounts per segment.

    Clicks below `positions` and buckets that reach below them are left out.
    """
    arms: dict[tuple[str | None, str | None, bool | None], Arm] = {}
    for row in rows.to_pylist():
        key = (row["segment"], row["bucket"], row["swapped"])
        too_deep = key[1] is not None and parse_bucket(key[1]).last_position > positions
        if too_deep or row["l"] > positions:
            continue
        arm = arms.setdefault(key, Arm.empty(positions))
        k, v, total = row["k"], row["l"], row["sessions"]
        if k > 0:
            layer = arm.layer(row["given"])
            layer[k - 1, v - 1] = layer[v - 1, k - 1] = total
        else:
            arms[key] = replace(arm, sessions=total)
    return {
        segment: _of_segment(segment, arms, positions)
        for segment in sorted({key[0] for key in arms}, key=lambda s: (s is None, s))
    }


def _of_segment(
    segment: str | None,
    arms: dict[tuple[str | None, str | None, bool | None], Arm],
    positions: int,
) -> SwapCounts:
    none = Arm.empty(positions)
    names = sorted({b for s, b, _ in arms if s == segment and b is not None})
    buckets = {
        name: BucketArms(
            parse_bucket(name),
            arms.get((segment, name, False), none),
            arms.get((segment, name, True), none),
        )
        for name in names
    }
    return SwapCounts(positions, buckets, arms.get((segment, None, None)))
