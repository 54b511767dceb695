"""Both tallies of one file of groups, within one task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.engine.columns import lists
from ulr.groups.levels import names_in, one_level
from ulr.propensity.daily.arms import ARM_COLUMNS, ArmTally, has_shuffle
from ulr.propensity.daily.documents import (
    DOCUMENT_COLUMNS,
    document_rows,
    merge_documents,
    second_index,
)

ROWS_PER_BATCH = 65_536
MERGE_ROWS = 1_000_000  # rows of documents held in memory before they are merged


def tally_file(fs: pafs.FileSystem, path: str, arms: ArmTally) -> Iterator[pa.Table]:
    """Add the file's pages to `arms`; yield its documents as merged `swap_documents_schema`.

    The columns with ids are read for row groups that have a page in a bucket 1:k or in a shuffle.
    With feedback, any event is a click.
    """
    pending: list[pa.Table] = []
    with fs.open_input_file(path) as source:
        file = pq.ParquetFile(source, read_dictionary=["segment", "bucket"])
        names = names_in(file.schema_arrow)
        for number in range(file.num_row_groups):
            batches = [one_level(b, names) for b in _read(file, number, ARM_COLUMNS)]
            second = [second_index(batch["bucket"]) for batch in batches]
            swaps = any(index.any() for index in second)
            if swaps or any(has_shuffle(batch["bucket"]) for batch in batches):
                ids = _read(file, number, DOCUMENT_COLUMNS)
                batches = [_joined(a, b) for a, b in zip(batches, ids, strict=True)]
            for batch in batches:
                arms.add(batch)
            if swaps:
                pending += [_documents(b, i) for b, i in zip(batches, second, strict=True)]
            if sum(table.num_rows for table in pending) > MERGE_ROWS:
                pending = [merge_documents(pending)]
                if pending[0].num_rows > MERGE_ROWS // 2:  # merging frees little
                    yield pending.pop()
    yield merge_documents(pending)


def tally_arms(fs: pafs.FileSystem, path: str, arms: ArmTally, events: Sequence[str]) -> None:
    """Add the file's pages to `arms`, clicks being documents with these events."""
    with fs.open_input_file(path) as source:
        file = pq.ParquetFile(source, read_dictionary=["segment", "bucket"])
        names = names_in(file.schema_arrow)
        for number in range(file.num_row_groups):
            batches = _read(file, number, ARM_COLUMNS)
            if any(has_shuffle(batch["bucket"]) for batch in batches):
                ids = _read(file, number, DOCUMENT_COLUMNS)
                batches = [_joined(a, b) for a, b in zip(batches, ids, strict=True)]
            for batch in batches:
                arms.add(one_level(batch, names, events))


def _read(file: pq.ParquetFile, number: int, columns: list[str]) -> list[pa.RecordBatch]:
    return list(file.iter_batches(ROWS_PER_BATCH, [number], columns, use_threads=False))


def _joined(batch: pa.RecordBatch, ids: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays(
        [*batch.columns, *ids.columns], [*batch.schema.names, *ids.schema.names]
    )


def _documents(groups: pa.RecordBatch, second: np.ndarray) -> pa.Table:
    rows = np.flatnonzero((second > 0) & (lists(groups["doc_ids"]).lengths > 0))
    return document_rows(groups, rows, second[rows])
