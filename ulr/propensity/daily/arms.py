"""Sessions and co-clicks of every arm of every bucket, counted in batches of groups."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import lists, patterns_of, whole
from ulr.experiments.buckets import MAX_SIDE, SHUFFLE, is_shuffle, parse_bucket
from ulr.kernels.swap_tally import LAYERS, count_arms, empty_co_clicks, unpack_co_clicks
from ulr.propensity.swap_counts import ALL_CLICKED
from ulr.warehouse.schema import swap_counts_schema

ARM_COLUMNS = ["segment", "bucket", "swapped", "patterns", "counts"]
_KEYS = swap_counts_schema.names[:-1]


class ArmKey(NamedTuple):
    """An arm of a bucket in a segment; bucket and swapped are None outside experiments."""

    segment: str | None
    bucket: str | None
    swapped: bool | None

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions that the bucket moves, or positions 1 and 2 of a shuffle."""
        if is_shuffle(self.bucket):
            return (1, 2)
        return parse_bucket(self.bucket).positions if self.bucket else ()


class ArmTally:
    """Totals of sessions and co-clicks per arm; memory grows with the counts that are not 0.

    A page in a bucket whose arm is unknown is not counted. The pages of shuffles are counted by the
    number of their shuffled documents; those with fewer than 2 are not counted.
    """

    def __init__(self) -> None:
        self.keys: dict[ArmKey, int] = {}
        self._sessions = np.zeros(16, np.int64)
        self._moved = np.full((16, 2 * MAX_SIDE), -1, np.int64)
        self._co_clicks = empty_co_clicks()

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch with the columns ARM_COLUMNS, and doc_ids if it has pages of shuffles."""
        arm = self._arm_of_rows(batch)
        self._co_clicks = count_arms(
            arm, patterns_of(batch), self._moved, self._sessions, self._co_clicks
        )

    def _arm_of_rows(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the arm of every row (int64), -1 if it is unknown, without sorting the rows."""
        segment, segments = codes_of(batch["segment"])
        bucket, buckets = _by_depth(batch)
        arm = pc.fill_null(batch["swapped"].cast(pa.int8()), 2).to_numpy(zero_copy_only=False)
        code = (segment * len(buckets) + bucket) * 3 + arm
        arm_of_code = np.full(len(segments) * len(buckets) * 3, -1, np.int64)
        for c in np.flatnonzero(np.bincount(code, minlength=1)).tolist():
            rest, swapped = c // 3, (False, True, None)[c % 3]
            name = buckets[rest % len(buckets)]
            if name is None:
                swapped = None
            elif is_shuffle(name):
                swapped = True
            elif swapped is None:
                continue
            if name == SHUFFLE:
                continue
            arm_of_code[c] = self._arm(ArmKey(segments[rest // len(buckets)], name, swapped))
        return arm_of_code[code]

    def _arm(self, key: ArmKey) -> int:
        """Return the row of an arm in the arrays; add the arm if it is new."""
        if key not in self.keys:
            row = self.keys[key] = len(self.keys)
            if row == len(self._sessions):
                self._sessions = np.concatenate([self._sessions, np.zeros_like(self._sessions)])
                self._moved = np.concatenate([self._moved, np.full_like(self._moved, -1)])
            self._moved[row, : len(key.positions)] = np.array(key.positions, np.int64) - 1
        return self.keys[key]

    def rows(self) -> pa.Table:
        """Return the totals that are not zero, as `swap_counts_schema`."""
        used = len(self.keys)
        arm, layer, k, v, total = unpack_co_clicks(self._co_clicks)
        condition = np.zeros((used, LAYERS), np.int32)
        condition[:, -1] = ALL_CLICKED
        for number, key in enumerate(self.keys):
            condition[number, 1 : 1 + len(key.positions)] = key.positions
        row = pa.array(np.concatenate([np.arange(used), arm]))
        zeros = np.zeros(used, np.int32)  # condition, k and l of the counts of all sessions
        columns = [
            pa.array([key[i] for key in self.keys], swap_counts_schema.field(i).type).take(row)
            for i in range(3)
        ]
        columns += [
            pa.array(np.concatenate([zeros, column.astype(np.int32)]))
            for column in (condition[arm, layer], k + 1, v + 1)
        ]
        columns.append(pa.array(np.concatenate([self._sessions[:used], total])))
        return pa.Table.from_arrays(columns, schema=swap_counts_schema)


def has_shuffle(buckets: pa.Array | pa.ChunkedArray) -> bool:
    """Return whether a page of a shuffle is among the pages."""
    return any(is_shuffle(name) for name in codes_of(buckets)[1])


def _by_depth(batch: pa.RecordBatch) -> tuple[np.ndarray, list[str | None]]:
    """Return the codes of the buckets, those of shuffles by their number of shuffled documents."""
    code, names = codes_of(batch["bucket"])
    shuffles = [(c, parse_bucket(n).shuffled) for c, n in enumerate(names) if n and is_shuffle(n)]
    for old, first in shuffles:
        rows = np.flatnonzero(code == old)
        lengths = lists(batch["doc_ids"]).lengths[rows]
        for depth in np.unique(np.minimum(lengths, first or lengths.max(initial=0))).tolist():
            own = lengths >= depth if depth == first else lengths == depth
            code[rows[own]] = len(names)
            names.append(f"{SHUFFLE}:{depth}" if depth > 1 else SHUFFLE)
    return code, names


def codes_of(column: pa.Array | pa.ChunkedArray) -> tuple[np.ndarray, list[str | None]]:
    """Return a code (int64) per row and the name of each code; the last code stands for null."""
    array = whole(column)
    if not pa.types.is_dictionary(array.type):
        array = array.cast(pa.string()).dictionary_encode()
    names = array.dictionary.to_pylist()
    codes = pc.fill_null(array.indices, len(names)).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), [*names, None]


def sum_counts(tables: Sequence[pa.Table]) -> pa.Table:
    """Add up tables of `swap_counts_schema`; the result is sorted by its key, nulls last."""
    total = pa.concat_tables([swap_counts_schema.empty_table(), *tables]).group_by(_KEYS)
    table = total.aggregate([("sessions", "sum")]).rename_columns(swap_counts_schema.names)
    order = [(name, "ascending") for name in _KEYS]
    return table.cast(swap_counts_schema).sort_by(order)


def cut_counts(rows: pa.Table, max_position: int) -> pa.Table:
    """Return the counts without clicks below `max_position`.

    A bucket that moves a deeper position keeps only the counts over all of its sessions.
    """
    names = pc.unique(rows["bucket"]).drop_null()
    swaps = [name for name in names.to_pylist() if not is_shuffle(name)]
    deep = [name for name in swaps if parse_bucket(name).last_position > max_position]
    conditional = pc.not_equal(rows["condition"], 0)
    cut = pc.and_(conditional, pc.is_in(rows["bucket"], pa.array(deep, pa.string())))
    return rows.filter(pc.and_not(pc.less_equal(rows["l"], max_position), cut))
