"""Clicks and impressions of documents in Arrow batches of groups, within one task."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ulr.engine.columns import patterns_of
from ulr.groups.levels import names_in, one_level
from ulr.kernels.layout import Ragged
from ulr.kernels.patterns import count_positions
from ulr.propensity.schema import exposures_schema
from ulr.warehouse.filesystem import open_filesystem

EXPOSURE_COLUMNS = ["query_id", "segment", "bucket", "doc_ids", "patterns", "counts"]
ROWS_PER_BATCH = 65_536


def count_exposures(
    url: str, files: Iterable[tuple[int, str]], max_position: int, events: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield batches of `exposures_schema`, one for each batch of the files (day, path).

    events: that count as clicks; (): any.
    """
    for day, path in files:
        for batch in read_groups(url, [path], EXPOSURE_COLUMNS, events):
            yield exposure_batch(batch, day, max_position)


def read_groups(
    url: str, files: Iterable[str], columns: list[str], events: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield the rows of files on the filesystem of `url`; segment and bucket are dictionaries.

    Patterns are those of one level of feedback.
    """
    fs, _ = open_filesystem(url)
    for path in files:
        with fs.open_input_file(path) as source:
            file = pq.ParquetFile(source, read_dictionary=["segment", "bucket"])
            names = names_in(file.schema_arrow)
            for batch in file.iter_batches(ROWS_PER_BATCH, columns=columns, use_threads=False):
                yield one_level(batch, names, events)


def exposure_batch(batch: pa.RecordBatch, day: int, max_position: int) -> pa.RecordBatch:
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
        "day": pa.array(np.full(group.size, day, np.int32)),
        "position": pa.array((index + 1).astype(np.int32)),
        "clicks": pa.array(clicks),
        "impressions": pa.array(sessions[group]),
    }
    columns = [values[name] for name in exposures_schema.names]
    return pa.RecordBatch.from_arrays(columns, schema=exposures_schema)
