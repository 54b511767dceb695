"""Count sessions and clicks in Arrow batches of groups, within one task; does not use Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ulr.engine.columns import patterns_of
from ulr.experiments.buckets import MAX_SIDE, parse_bucket
from ulr.kernels.layout import Ragged
from ulr.kernels.patterns import count_patterns, count_positions
from ulr.propensity.swap_counts import ALL_CLICKED
from ulr.warehouse.schema import exposures_schema, swap_counts_schema
from ulr.warehouse.storage import open_filesystem

ARM_COLUMNS = ["segment", "bucket", "swapped", "patterns", "counts"]
EXPOSURE_COLUMNS = ["query_id", "segment", "bucket", "doc_ids", "patterns", "counts"]
ROWS_PER_BATCH = 65_536
# Co-clicks are counted over all sessions, over the sessions that clicked a position of the bucket
# (one layer per position), and over those that clicked all of its positions (ALL_CLICKED).
LAYERS = 2 + 2 * MAX_SIDE


class ArmKey(NamedTuple):
    """An arm of a bucket in a segment; bucket and swapped are None outside experiments."""

    segment: str | None
    bucket: str | None
    swapped: bool | None

    @property
    def positions(self) -> tuple[int, ...]:
        """The positions that the bucket moves."""
        return parse_bucket(self.bucket).positions if self.bucket else ()


def count_arms(url: str, files: Iterable[str], max_position: int) -> Iterator[pa.RecordBatch]:
    """Yield one batch of `swap_counts_schema`: the totals of the files."""
    tally = ArmTally(max_position)
    for batch in _read(url, files, ARM_COLUMNS):
        tally.add(batch)
    yield tally.rows()


def count_exposures(url: str, files: Iterable[str], max_position: int) -> Iterator[pa.RecordBatch]:
    """Yield batches of `exposures_schema`, one for each batch of the files."""
    for batch in _read(url, files, EXPOSURE_COLUMNS):
        yield exposure_batch(batch, max_position)


def _read(url: str, files: Iterable[str], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files on the filesystem of `url`; segment and bucket are dictionaries."""
    fs, _ = open_filesystem(url)
    for path in files:
        with fs.open_input_file(path) as source:
            file = pq.ParquetFile(source, read_dictionary=["segment", "bucket"])
            yield from file.iter_batches(ROWS_PER_BATCH, columns=columns, use_threads=False)


class ArmTally:
    """Totals (int64) of sessions and co-clicks per arm; the arrays grow with the number of arms.

    A page in a bucket whose arm is unknown is not counted.
    """

    def __init__(self, max_position: int) -> None:
        self.keys: dict[ArmKey, int] = {}
        self.sessions = np.zeros(16, np.int64)
        self.slots = np.zeros((16, max_position), np.int64)
        self.co_clicks = np.zeros((16, LAYERS, max_position, max_position), np.int64)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count a batch with the columns ARM_COLUMNS."""
        key = self._key_of_rows(batch)
        count_patterns(key, patterns_of(batch), self.slots, self.sessions, self.co_clicks)

    def _key_of_rows(self, batch: pa.RecordBatch) -> np.ndarray:
        """Return the arm index of every row, -1 if the arm is unknown, without sorting the rows."""
        segment, segments = _codes(batch["segment"])
        bucket, buckets = _codes(batch["bucket"])
        arm = pc.fill_null(batch["swapped"].cast(pa.int8()), 2).to_numpy(zero_copy_only=False)
        code = (segment * len(buckets) + bucket) * 3 + arm
        index_of_code = np.full(len(segments) * len(buckets) * 3, -1, np.int64)
        for c in np.flatnonzero(np.bincount(code, minlength=1)).tolist():
            rest, swapped = c // 3, (False, True, None)[c % 3]
            name = buckets[rest % len(buckets)]
            if name is None:
                swapped = None
            elif swapped is None:
                continue
            key = ArmKey(segments[rest // len(buckets)], name, swapped)
            index_of_code[c] = self._arm_index(key)
        return index_of_code[code]

    def _arm_index(self, key: ArmKey) -> int:
        """Return the index of an arm in the arrays; add the arm if it is new."""
        if key not in self.keys:
            row = self.keys[key] = len(self.keys)
            if row == len(self.sessions):
                self.sessions, self.slots, self.co_clicks = (
                    np.concatenate([array, np.zeros_like(array)])
                    for array in (self.sessions, self.slots, self.co_clicks)
                )
            if max(key.positions, default=0) <= self.slots.shape[1]:
                index = [p - 1 for p in key.positions]
                self.slots[row, index] = range(1, len(index) + 1)
        return self.keys[key]

    def rows(self) -> pa.RecordBatch:
        """Return the totals that are not zero, as `swap_counts_schema`."""
        used = len(self.keys)
        key, layer, k, v = np.nonzero(self.co_clicks[:used])
        total = self.co_clicks[key, layer, k, v]
        condition = np.zeros((used, LAYERS), np.int32)
        condition[:, -1] = ALL_CLICKED
        for number, arm in enumerate(self.keys):
            condition[number, 1 : 1 + len(arm.positions)] = arm.positions
        row = pa.array(np.concatenate([np.arange(used), key]))
        zeros = np.zeros(used, np.int32)  # condition, k and l of the counts of all sessions
        columns = [
            pa.array([arm[i] for arm in self.keys], swap_counts_schema.field(i).type).take(row)
            for i in range(3)
        ]
        columns += [
            pa.array(np.concatenate([zeros, column.astype(np.int32)]))
            for column in (condition[key, layer], k + 1, v + 1)
        ]
        columns.append(pa.array(np.concatenate([self.sessions[:used], total])))
        return pa.RecordBatch.from_arrays(columns, schema=swap_counts_schema)


def _codes(column: pa.Array) -> tuple[np.ndarray, list[str | None]]:
    """Return a code (int64) per row and the name of each code; the last code stands for null."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    names = column.dictionary.to_pylist()
    codes = pc.fill_null(column.indices, len(names)).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), [*names, None]


def exposure_batch(batch: pa.RecordBatch, max_position: int) -> pa.RecordBatch:
    """Return one row per shown document of each group: its position, clicks and impressions."""
    lists = batch["doc_ids"]
    starts = lists.offsets.to_numpy().astype(np.int64)
    lengths = np.minimum(np.diff(starts), max_position)
    sessions, clicks = count_positions(lengths, patterns_of(batch))
    shown = Ragged.from_lengths(lengths)
    group, index = shown.owner(), shown.within()
    row = pa.array(group)
    values = {
        "segment": batch["segment"].cast(pa.string()).take(row),
        "bucket": batch["bucket"].cast(pa.string()).take(row),
        "query_id": batch["query_id"].take(row),
        "doc_id": lists.values.take(pa.array(starts[group] + index)),
        "position": pa.array((index + 1).astype(np.int32)),
        "clicks": pa.array(clicks),
        "impressions": pa.array(sessions[group]),
    }
    columns = [values[name] for name in exposures_schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=exposures_schema)
