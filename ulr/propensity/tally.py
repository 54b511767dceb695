"""One task's part of the counting: Arrow batches of groups in, partial sums out. No Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ulr.engine.columns import patterns_of
from ulr.experiments.buckets import MAX_SIDE, parse_bucket
from ulr.kernels.layout import Ragged
from ulr.kernels.patterns import count_patterns, count_positions
from ulr.warehouse.schema import exposures_schema, swap_counts_schema
from ulr.warehouse.storage import open_filesystem

ARM_COLUMNS = ["segment", "bucket", "swapped", "patterns", "counts"]
EXPOSURE_COLUMNS = ["query_id", "segment", "bucket", "doc_ids", "patterns", "counts"]
ROWS_PER_BATCH = 65_536
LAYERS = 2 + 2 * MAX_SIDE  # all sessions; those that clicked each position of the bucket; all of it

Key = tuple[str | None, str | None, bool | None]


def read_batches(url: str, files: Iterable[str], columns: list[str]) -> Iterator[pa.RecordBatch]:
    """Rows of files on the filesystem of `url`; segments and buckets come as dictionaries."""
    fs, _ = open_filesystem(url)
    for path in files:
        with fs.open_input_file(path) as source:
            file = pq.ParquetFile(source, read_dictionary=["segment", "bucket"])
            yield from file.iter_batches(ROWS_PER_BATCH, columns=columns, use_threads=False)


class ArmTally:
    """Totals per (segment, bucket, arm), growing as keys appear.

    A page in a bucket whose arm is not known tells nothing and is not counted.
    """

    def __init__(self, max_position: int) -> None:
        self.keys: dict[Key, int] = {}
        self._size = max_position
        self._grow(16)

    def _grow(self, rows: int) -> None:
        shapes = {"sessions": (), "slots": (self._size,)}
        shapes["together"] = (LAYERS, self._size, self._size)
        for name, shape in shapes.items():
            fresh = np.zeros((rows, *shape), np.int64)
            old = getattr(self, name, fresh[:0])
            fresh[: len(old)] = old
            setattr(self, name, fresh)

    def add(self, batch: pa.RecordBatch) -> None:
        """Count one batch with the columns ARM_COLUMNS."""
        key = self._key_of_rows(batch)
        count_patterns(key, patterns_of(batch), self.slots, self.sessions, self.together)

    def _key_of_rows(self, batch: pa.RecordBatch) -> np.ndarray:
        """Number each row's (segment, bucket, arm) from their small codes, without sorting rows."""
        segment, segments = _codes(batch["segment"])
        bucket, buckets = _codes(batch["bucket"])
        arm = pc.fill_null(batch["swapped"].cast(pa.int8()), 2).to_numpy(zero_copy_only=False)
        code = (segment * len(buckets) + bucket) * 3 + arm
        present = np.flatnonzero(np.bincount(code, minlength=1))
        number = np.full(len(segments) * len(buckets) * 3, -1, np.int64)
        for c in present.tolist():
            swapped = (False, True, None)[c % 3]
            name = buckets[c // 3 % len(buckets)]
            if name is None or swapped is not None:
                arm_of = None if name is None else swapped
                number[c] = self._number((segments[c // 3 // len(buckets)], name, arm_of))
        return number[code]

    def _number(self, key: Key) -> int:
        if key not in self.keys:
            row = self.keys[key] = len(self.keys)
            if row == len(self.sessions):
                self._grow(2 * row)
            touched = parse_bucket(key[1]).positions if key[1] else ()
            if max(touched, default=0) <= self._size:
                self.slots[row, [p - 1 for p in touched]] = range(1, len(touched) + 1)
        return self.keys[key]

    def rows(self) -> pa.RecordBatch:
        """The totals that are not zero, as `swap_counts_schema`."""
        used = len(self.keys)
        key, layer, k, v = np.nonzero(self.together[:used])
        total = self.together[key, layer, k, v]
        given = np.array([_given(bucket) for _, bucket, _ in self.keys]).reshape(-1, LAYERS)
        row = pa.array(np.concatenate([np.arange(used), key]))
        none = np.zeros(used, np.int32)  # the arm itself: no condition, no positions
        names = [pa.array([name[i] for name in self.keys]) for i in range(3)]
        columns = [
            values.cast(field.type).take(row)
            for values, field in zip(names, swap_counts_schema, strict=False)
        ]
        columns += [
            pa.array(np.concatenate([none, column.astype(np.int32)]))
            for column in (given[key, layer], k + 1, v + 1)
        ]
        columns.append(pa.array(np.concatenate([self.sessions[:used], total])))
        return pa.RecordBatch.from_arrays(columns, schema=swap_counts_schema)


def _given(bucket: str | None) -> list[int]:
    """What the layers are called in the table: 0, the bucket's positions, and -1 for all."""
    touched = parse_bucket(bucket).positions if bucket else ()
    return [0, *touched, *[0] * (LAYERS - 2 - len(touched)), -1]


def _codes(column: pa.Array) -> tuple[np.ndarray, list[str | None]]:
    """Small integers and the names they stand for; the last name is null."""
    if not pa.types.is_dictionary(column.type):
        column = column.cast(pa.string()).dictionary_encode()
    names = column.dictionary.to_pylist()
    codes = pc.fill_null(column.indices, len(names)).to_numpy(zero_copy_only=False)
    return codes.astype(np.int64), [*names, None]


def exposure_batch(batch: pa.RecordBatch, max_position: int) -> pa.RecordBatch:
    """One row per shown document of each group, with its position, clicks and impressions."""
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
