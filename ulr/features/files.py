"""Feature files: Parquet in the features schema, or LETOR text; listed once, read in pieces."""

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

from ulr.engine.columns import list_column, without_views
from ulr.errors import InvalidData, UserError
from ulr.features.letor import read_letor
from ulr.warehouse.schema import features_schema
from ulr.warehouse.storage import Storage, StoredFile, open_filesystem

NAMES = "names"  # metadata of the column `features`: a JSON list of what the values are
_SPARK = b"org.apache.spark.sql.parquet.row.metadata"  # where Spark keeps a column's metadata
LETOR_ENDS = (".txt", ".txt.gz", ".letor", ".svm")
BATCH = 65_536
_NOT_IN_A_MODEL = re.compile(r'[\s",:\[\]{}]')


@dataclass(frozen=True)
class FeatureFiles:
    """The files of a features table; `paths` are on the filesystem of `url`."""

    url: str
    files: list[StoredFile]

    @property
    def paths(self) -> list[str]:
        """The files, as the filesystem names them."""
        return [file.path for file in self.files]

    @property
    def identity(self) -> list[list[object]]:
        """Name, size and time of each file: the files' part of a fingerprint."""
        return [[f.path.rpartition("/")[2], f.size, f.mtime_ns] for f in self.files]

    def names(self) -> list[str]:
        """Return the names of the features, or nothing if the first file has none."""
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
    """What the values of a row are, where the file carries it; else nothing."""
    if path.endswith(LETOR_ENDS):
        return []
    fs, _ = open_filesystem(url)
    with fs.open_input_file(path) as stream:
        return _names(pq.ParquetFile(stream), path)


def with_names(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """The same table, its column `features` saying what the values are."""
    at = table.schema.get_field_index("features")
    field = table.schema.field(at).with_metadata({NAMES: json.dumps(list(names))})
    return table.cast(table.schema.set(at, field))


def read_features(url: str, path: str, names: Sequence[str] = ()) -> Iterator[pa.Table]:
    """A file's rows in the features schema, some at a time; a missing label is null.

    names: those of another file of the table, which must be this one's as well.
    """
    if path.endswith(LETOR_ENDS):
        yield _letor_table(url, path)
        return
    fs, _ = open_filesystem(url)
    with fs.open_input_file(path) as stream:
        source = pq.ParquetFile(stream)
        there = source.schema_arrow.names
        lacking = [n for n in features_schema.names if n not in there and n != "label"]
        if lacking:
            raise UserError(f"{path}: no column {lacking[0]}; expected query_id, doc_id, features")
        if difference := other_names(names, _names(source, path)):
            raise UserError(f"{path}: {difference} in another file; write them all in one order")
        columns = [n for n in features_schema.names if n in there]
        for batch in source.iter_batches(BATCH, columns=columns):
            yield _typed(batch, path)


def other_names(wanted: Sequence[str], given: Sequence[str]) -> str:
    """The first feature whose names differ, in words; nothing where one side has no names."""
    if not wanted or not given or list(wanted) == list(given):
        return ""
    if len(wanted) != len(given):
        return f"{len(given)} features where there are {len(wanted)}"
    at = next(i for i, (a, b) in enumerate(zip(wanted, given, strict=True)) if a != b)
    return f"feature {at + 1} is {given[at]} where it is {wanted[at]}"


def _names(file: pq.ParquetFile, path: str) -> list[str]:
    """From Arrow's metadata of the column, or from Spark's."""
    schema = file.schema_arrow
    at = schema.get_field_index("features")
    text = (schema.field(at).metadata or {}).get(NAMES.encode()) if at >= 0 else None
    if text is not None:
        found = json.loads(text)
    else:
        written = json.loads((file.metadata.metadata or {}).get(_SPARK, b"{}"))
        columns = {f["name"]: f["metadata"] for f in written.get("fields", [])}
        found = columns.get("features", {}).get(NAMES, [])
    # LightGBM keeps names without white space or JSON's own characters.
    names = [_NOT_IN_A_MODEL.sub("_", str(name)) for name in found]
    if len(set(names)) < len(names):
        twice = max(names, key=names.count)
        raise UserError(f"{path}: two features are named {twice}; every name must be another")
    return names


def _typed(batch: pa.RecordBatch, path: str) -> pa.Table:
    columns = []
    for field in features_schema:
        name = field.name
        given = batch[name] if name in batch.schema.names else pa.nulls(batch.num_rows)
        try:
            # A feature is a number as float32 has it, rounded where its own type says more.
            typed = pc.cast(without_views(given), field.type, safe=name != "features")
        except pa.ArrowException as why:
            reason = str(why).split("\n", maxsplit=1)[0]
            raise InvalidData(
                f"{path}: {name} is {given.type} where {field.type} is expected: {reason}"
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
    rows = read_letor([path], fs)
    width = rows.features.shape[1]
    lengths = np.full(len(rows.query_ids), width)
    columns = [
        pa.array(rows.query_ids),
        pa.array(rows.doc_ids),
        list_column(lengths, pa.array(rows.features.reshape(-1))),
        pa.array(rows.labels),
    ]
    return pa.table(columns, schema=features_schema)
