"""Feature files: Parquet in the features schema, or LETOR text; listed once, read in pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.arrow import list_column
from ulr.errors import UserError
from ulr.letor import read_letor
from ulr.schema import features_schema
from ulr.storage import Storage, StoredFile, open_filesystem

LETOR_ENDS = (".txt", ".txt.gz", ".letor", ".svm")
BATCH = 65_536


def find_features(url: str) -> list[StoredFile]:
    """The files of a folder, or the one file; paths as the filesystem spells them."""
    fs, path = open_filesystem(url)
    info = fs.get_file_info(path)
    if info.type == pafs.FileType.File:
        return [StoredFile(path, info.size, info.mtime_ns)]
    storage = Storage(url)
    files = [StoredFile(storage.path(f.path), f.size, f.mtime_ns) for f in storage.files()]
    if not files:
        raise UserError(f"no feature files at {url!r}; give a folder or a file in features.path")
    return files


def read_features(url: str, path: str) -> Iterator[pa.Table]:
    """A file's rows in the features schema, some at a time; a missing label is null."""
    if path.endswith(LETOR_ENDS):
        yield _letor_table(path)
        return
    fs, _ = open_filesystem(url)
    with fs.open_input_file(path) as stream:
        source = pq.ParquetFile(stream)
        names = source.schema_arrow.names
        lacking = [n for n in features_schema.names if n not in names and n != "label"]
        if lacking:
            raise UserError(f"{path}: no column {lacking[0]}; expected query_id, doc_id, features")
        columns = [n for n in features_schema.names if n in names]
        for batch in source.iter_batches(BATCH, columns=columns):
            yield _typed(pa.Table.from_batches([batch]))


def _typed(table: pa.Table) -> pa.Table:
    if "label" not in table.column_names:
        table = table.append_column("label", pa.nulls(table.num_rows, pa.int32()))
    return table.select(features_schema.names).cast(features_schema)


def _letor_table(path: str) -> pa.Table:
    rows = read_letor([path])
    width = rows.features.shape[1]
    lengths = np.full(len(rows.query_ids), width)
    columns = [
        pa.array(rows.query_ids),
        pa.array(rows.doc_ids),
        list_column(lengths, pa.array(rows.features.reshape(-1))),
        pa.array(rows.labels),
    ]
    return pa.table(columns, schema=features_schema)
