"""Totals of a swap experiment: clicks and co-clicks in each bucket's two arms.

Totals are additive over dates and segments. At 50 positions a segment has half a million, so they
go from columns to matrices without a Python object for each.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import whole
from ulr.experiments.buckets import Bucket, is_shuffle, parse_bucket, permutation

ALL_CLICKED = -1  # the condition that every position of the bucket was clicked


@dataclass(frozen=True)
class Arm:
    """One arm of a bucket. Matrices are int64, indexed by position - 1.

    sessions     pages in the arm
    co_clicks    sessions that clicked both positions, symmetric; the diagonal holds clicks
    conditional  the same among the sessions that clicked one position of the bucket, or
                 ALL_CLICKED: the triple and quadruple clicks in covariances of co-clicks
    """

    sessions: int
    co_clicks: np.ndarray
    conditional: dict[int, np.ndarray] = field(default_factory=dict)

    @classmethod
    def empty(cls, positions: int) -> Arm:
        """Return an arm without sessions."""
        return cls(0, np.zeros((positions, positions), np.int64))

    @property
    def clicks(self) -> np.ndarray:
        """Clicks per position."""
        return np.diag(self.co_clicks)

    def given(self, condition: int) -> np.ndarray:
        """Return the co-clicks among the sessions that meet a condition; zeros if none did."""
        return self.conditional.get(condition, np.zeros_like(self.co_clicks))

    def __add__(self, other: Arm) -> Arm:
        conditions = {*self.conditional, *other.conditional}
        return Arm(
            self.sessions + other.sessions,
            self.co_clicks + other.co_clicks,
            {c: self.given(c) + other.given(c) for c in conditions},
        )


@dataclass(frozen=True)
class BucketArms:
    """A bucket and its two arms: pages as ranked, and pages with the swap applied."""

    bucket: Bucket
    kept: Arm
    swapped: Arm

    @property
    def sessions(self) -> int:
        """Pages of both arms."""
        return self.kept.sessions + self.swapped.sessions

    @property
    def moves(self) -> dict[int, int]:
        """Ranked position -> position in the swapped arm, of the documents that move."""
        order = permutation(self.bucket, self.bucket.last_position)
        return {was + 1: now + 1 for now, was in enumerate(order) if was != now}


@dataclass(frozen=True)
class SwapCounts:
    """All buckets of some traffic, none deeper than `positions`, and the pages outside them.

    shuffles: the pages whose first N documents are in random order, by N, which may be deeper.
    """

    positions: int
    buckets: dict[str, BucketArms] = field(default_factory=dict)
    outside: Arm | None = None
    shuffles: dict[int, Arm] = field(default_factory=dict)

    @property
    def randomised(self) -> bool:
        """Whether there is a page of an experiment."""
        return bool(self.buckets or self.shuffles)

    def unswapped(self) -> Arm:
        """Return the sum of all pages that were shown as ranked."""
        arms = [arms.kept for arms in self.buckets.values()]
        arms += [self.outside] if self.outside is not None else []
        return sum(arms, Arm.empty(self.positions))


def counts_of(rows: pa.Table, positions: int) -> SwapCounts:
    """Sum rows of `swap_counts_schema` over segments, without what is below `positions`."""
    rows = rows.filter(pc.less_equal(rows["l"], positions))
    bucket = whole(rows["bucket"]).dictionary_encode()
    names = bucket.dictionary.to_pylist()
    code = pc.fill_null(bucket.indices, len(names)).to_numpy(zero_copy_only=False)
    swapped = pc.fill_null(rows["swapped"], False).to_numpy()
    arm_of_row = 2 * code.astype(np.int64) + swapped
    order = np.argsort(arm_of_row, kind="stable")
    starts = np.searchsorted(arm_of_row[order], np.arange(2 * len(names) + 3))
    columns = {name: rows[name].to_numpy()[order] for name in ("condition", "k", "l", "sessions")}

    def arm(number: int) -> Arm:
        own = slice(starts[number], starts[number + 1])
        return _arm({name: column[own] for name, column in columns.items()}, positions)

    number = {name: 2 * i for i, name in enumerate(names)}
    buckets = {
        name: BucketArms(parse_bucket(name), arm(number[name]), arm(number[name] + 1))
        for name in sorted(names)
        if not is_shuffle(name) and parse_bucket(name).last_position <= positions
    }
    shuffles = {
        parse_bucket(name).last_position: arm(number[name] + 1)
        for name in names
        if is_shuffle(name)
    }
    outside = arm(2 * len(names))
    sorted_shuffles = dict(sorted(shuffles.items()))
    return SwapCounts(positions, buckets, outside if outside.sessions else None, sorted_shuffles)


def _arm(rows: dict[str, np.ndarray], positions: int) -> Arm:
    """Return one arm from its totals; a row with k = 0 counts the pages of the arm."""
    is_pair = rows["k"] > 0
    layers = {}
    for condition in np.unique(np.append(rows["condition"][is_pair], 0)).tolist():
        own = is_pair & (rows["condition"] == condition)
        upper = np.zeros((positions, positions), np.int64)
        np.add.at(upper, (rows["k"][own] - 1, rows["l"][own] - 1), rows["sessions"][own])
        layers[condition] = upper + np.triu(upper, 1).T
    return Arm(int(rows["sessions"][~is_pair].sum()), layers.pop(0), layers)
