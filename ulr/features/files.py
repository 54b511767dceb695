"""Feature files: Parquet with the features schema, or LETOR text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.engine.columns import list_array, without_views
from ulr.errors import InvalidData, UserError
from ulr.features.letor import read_letor
from ulr.warehouse.schema import features_schema
from ulr.warehouse.storage import Storage, StoredFile, open_filesystem

BATCH_ROWS = 65_536
_NAMES = "names"  # metadata of the column `features`: a JSON list of feature names
_SPARK_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
_LETOR_SUFFIXES = (".txt", ".txt.gz", ".letor", ".svm")
_NOT_IN_A_MODEL = re.compile(r'[\s",:\[\]{}]')  # LightGBM's text format cannot hold these


@dataclass(frozen=True)
class FeatureFiles:
    """The files of a features table, on the filesystem of `url`."""

    url: str
    files: list[StoredFile]

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    @property
    def identity(self) -> list[list[object]]:
        """Name, size and time of each file: the files' part of a fingerprint."""
        return [[f.path.rpartition("/")[2], f.size, f.mtime_ns] for f in self.files]

    def names(self) -> list[str]:
        """Return the names of the features; empty if the first file has none."""
        return feature_names(self.url, self.files[0].path)


def find_features(url: str) -> FeatureFiles:
    """Return the one file or the files of a folder; raise UserError if there are none."""
    fs, path = open_filesystem(url)
    info = fs.get_file_info(path)
    if info.type == pafs.FileType.File:
        return FeatureFiles(url, [StoredFile(path, info.size, info.mtime_ns)])
    storage = Storage(url)
    files = [StoredFile(storage.path(f.path), f.size, f.mtime_ns) for f in storage.files()]
    if not files:
        raise UserError(f"no feature files at {url!r}; give a folder or a file in features.path")
    return FeatureFiles(url, files)


def feature_names(url: str, path: str) -> list[str]:
    """Return the names of a file's features; empty if it has none."""
    if path.endswith(_LETOR_SUFFIXES):
        return []
    fs, _ = open_filesystem(url)
    with fs.open_input_file(path) as stream:
        return _names(pq.ParquetFile(stream), path)


def with_names(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the table with feature names in the metadata of its column `features`."""
    at = table.schema.get_field_index("features")
    field = table.schema.field(at).with_metadata({_NAMES: json.dumps(list(names))})
    return table.cast(table.schema.set(at, field))


def read_features(url: str, path: str, names: Sequence[str] = ()) -> Iterator[pa.Table]:
    """Yield a file's rows in batches with `features_schema`; a missing label is null.

    names: feature names of another file of the table; raises UserError if this file's differ.
    """
    if path.endswith(_LETOR_SUFFIXES):
        yield _letor_table(url, path)
        return
    fs, _ = open_filesystem(url)
    with fs.open_input_file(path) as stream:
        file = pq.ParquetFile(stream)
        columns = [n for n in features_schema.names if n in file.schema_arrow.names]
        missing = [n for n in features_schema.names if n not in columns and n != "label"]
        if missing:
            raise UserError(f"{path}: no column {missing[0]}; expected query_id, doc_id, features")
        if difference := name_difference(names, _names(file, path)):
            raise UserError(f"{path}: {difference} in another file; write them all in one order")
        for batch in file.iter_batches(BATCH_ROWS, columns=columns):
            yield _typed(batch, path)


def name_difference(expected: Sequence[str], names: Sequence[str]) -> str:
    """Return a text about the first name that differs; empty if equal or one side has no names."""
    if not expected or not names or list(expected) == list(names):
        return ""
    if len(expected) != len(names):
        return f"{len(names)} features where there are {len(expected)}"
    at = next(i for i, pair in enumerate(zip(expected, names, strict=True)) if len(set(pair)) > 1)
    return f"feature {at + 1} is {names[at]} where it is {expected[at]}"


def _names(file: pq.ParquetFile, path: str) -> list[str]:
    """Read feature names from Arrow's metadata of the column, or from Spark's."""
    schema = file.schema_arrow
    at = schema.get_field_index("features")
    text = (schema.field(at).metadata or {}).get(_NAMES.encode()) if at >= 0 else None
    if text is not None:
        content = json.loads(text)
    else:
        spark_schema = json.loads((file.metadata.metadata or {}).get(_SPARK_METADATA, b"{}"))
        columns = {f["name"]: f["metadata"] for f in spark_schema.get("fields", [])}
        content = columns.get("features", {}).get(_NAMES, [])
    names = [_NOT_IN_A_MODEL.sub("_", str(name)) for name in content]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise UserError(f"{path}: two features are named {twice}; names must be unique")
    return names


def _typed(batch: pa.RecordBatch, path: str) -> pa.Table:
    columns = []
    for field in features_schema:
        name = field.name
        column = batch[name] if name in batch.schema.names else pa.nulls(batch.num_rows)
        try:
            # Features are rounded to float32; other columns must convert without loss.
            typed = pc.cast(without_views(column), field.type, safe=name != "features")
        except pa.ArrowException as error:
            reason = str(error).split("\n", maxsplit=1)[0]
            raise InvalidData(
                f"{path}: {name} is {column.type} where {field.type} is expected: {reason}"
            ) from None
        if typed.null_count and not field.nullable:
            raise InvalidData(
                f"{path}: {name} is null in {typed.null_count:,} of {len(typed):,} rows; "
                "every row of features needs one"
            )
        columns.append(typed)
    return pa.table(columns, schema=features_schema)


def _letor_table(url: str, path: str) -> pa.Table:
    fs, _ = open_filesystem(url)
    documents = read_letor([path], fs)
    rows, width = documents.features.shape
    columns = [
        pa.array(documents.query_ids),
        pa.array(documents.doc_ids),
        list_array(np.full(rows, width), pa.array(documents.features.reshape(-1))),
        pa.array(documents.labels),
    ]
    return pa.table(columns, schema=features_schema)
