"""The sums within displayed rankings, from files of groups.

They identify kappa under trust bias, and phi and beta of users who stop after clicks
(docs/methods.md sections 3.8 and 3.12). A ranking that was shown on several dates is counted date
by date. The sums are consistent with any number of sessions of a ranking; one session adds nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import hashes, patterns_of
from ulr.experiments.buckets import MAX_SIDE, is_shuffle, parse_bucket
from ulr.kernels.within_rankings import ABOVE, RankingSums, add_rankings
from ulr.propensity.daily.arms import codes_of
from ulr.propensity.tally import read_groups

RANKING_COLUMNS = ["query_id", "bucket", "swapped", "patterns", "counts"]


class RankingTally(NamedTuple):
    """What is counted. buckets: names of swap buckets, whose arms are 2 i (kept) and 2 i + 1."""

    positions: int
    blocks: int
    buckets: Sequence[str]

    def empty(self) -> RankingSums:
        """Return sums of 0."""
        k, arms = self.positions, 2 * len(self.buckets)
        shapes = (
            (self.blocks, k, k, 3),
            (self.blocks, k, 2),
            (arms, self.blocks),
            (arms, self.blocks, 2 * MAX_SIDE, ABOVE),
        )
        return RankingSums(*(np.zeros(shape, np.int64) for shape in shapes))

    def flat(self, sums: RankingSums) -> np.ndarray:
        """Return all sums as one vector, int64."""
        return np.concatenate([part.reshape(-1) for part in sums])

    def unflat(self, values: np.ndarray) -> RankingSums:
        """Return the sums in a vector of `flat`."""
        shapes = [part.shape for part in self.empty()]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = np.split(values, ends[:-1])
        return RankingSums(*(p.reshape(shape) for p, shape in zip(parts, shapes, strict=True)))

    def moved(self) -> np.ndarray:
        """Return the indices that the bucket of each arm moves, -1 where there are fewer."""
        moved = np.full((2 * len(self.buckets), 2 * MAX_SIDE), -1, np.int64)
        for i, name in enumerate(self.buckets):
            positions = parse_bucket(name).positions
            moved[2 * i : 2 * i + 2, : len(positions)] = np.array(positions) - 1
        return moved


def swap_buckets(names: Iterable[str | None], positions: int) -> list[str]:
    """Return the swap buckets within the first positions, sorted."""
    swaps = [name for name in names if name is not None and not is_shuffle(name)]
    return sorted(name for name in swaps if parse_bucket(name).last_position <= positions)


def sum_rankings(files: Iterable[str], *, url: str, tally: RankingTally) -> np.ndarray:
    """Return the sums over the groups of some files, as a vector."""
    sums, moved = tally.empty(), tally.moved()
    for batch in read_groups(url, files, RANKING_COLUMNS):
        block = (hashes(batch["query_id"]) % np.uint64(tally.blocks)).astype(np.int64)
        add_rankings(patterns_of(batch), block, _arms(batch, tally.buckets), moved, sums)
    return tally.flat(sums)


def _arms(batch: pa.RecordBatch, buckets: Sequence[str]) -> np.ndarray:
    """Return the arm of every row, -1 outside the buckets or where the arm is unknown."""
    code, names = codes_of(batch["bucket"])
    number = {name: 2 * i for i, name in enumerate(buckets)}
    first = np.array([number.get(name or "", -1) for name in names])[code]
    swapped = pc.fill_null(batch["swapped"].cast(pa.int8()), -1).to_numpy(zero_copy_only=False)
    return np.where((first < 0) | (swapped < 0), -1, first + swapped).astype(np.int64)
