"""Feature files: Parquet with the features schema, or LETOR text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.clicklog.damaged import naming_file
from ulr.clicklog.encoding import invalid_rows
from ulr.engine.columns import list_array, without_views
from ulr.errors import InvalidData, UserError
from ulr.features.letor import read_letor
from ulr.features.shown import ShownQueries
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import features_schema
from ulr.warehouse.storage import Storage, StoredFile

BATCH_ROWS = 65_536
_PART_BYTES = 64 << 20  # larger files are read by several tasks
_NAMES = "names"  # metadata of the column `features`: a JSON list of feature names
_SPARK_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
_LETOR_SUFFIXES = (".txt", ".txt.gz", ".letor", ".svm")
# Characters that LightGBM's text format does not allow in feature names.
_INVALID_IN_NAMES = re.compile(r'[\s",:\[\]{}]')


class FeaturePart(NamedTuple):
    """Row groups of a file of features: the k-th of `of` parts. size: bytes, about."""

    file: int
    k: int
    of: int
    size: int


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
        """Name, size and modification time of each file, for fingerprints."""
        return [[f.path.rpartition("/")[2], f.size, f.mtime_ns] for f in self.files]

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def parts(self) -> list[FeaturePart]:
        """Return all files, those of many megabytes in several parts."""
        parts = []
        for number, file in enumerate(self.files):
            of = 1 if file.path.endswith(_LETOR_SUFFIXES) else max(1, file.size // _PART_BYTES)
            parts += [FeaturePart(number, k, of, file.size // of) for k in range(of)]
        return parts

    def names(self) -> list[str]:
        """Return the names of the features; empty if the first file has none."""
        return feature_names(self.url, self.files[0].path)


def find_features(url: str) -> FeatureFiles:
    """Return the file at `url`, or all files of a folder; raise UserError if there are none."""
    fs, path = open_filesystem(url)
    info = fs.get_file_info(path)
    if info.type == pafs.FileType.File:
        return FeatureFiles(url, [StoredFile(path, info.size, info.mtime_ns)])
    storage = Storage(url)
    files = [StoredFile(storage.path(f.path), f.size, f.mtime_ns) for f in storage.files()]
    if not files:
        raise UserError(f"no feature files at {url!r}; set features.path to a folder or file")
    return FeatureFiles(url, files)


def feature_names(url: str, path: str) -> list[str]:
    """Return the names of a file's features; empty if it has none."""
    if path.endswith(_LETOR_SUFFIXES):
        return []
    fs, _ = open_filesystem(url)
    with naming_file(path, "Parquet file"), fs.open_input_file(path) as stream:
        return _names(pq.ParquetFile(stream), path)


def with_names(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the table with feature names in the metadata of its column `features`."""
    index = table.schema.get_field_index("features")
    field = table.schema.field(index).with_metadata({_NAMES: json.dumps(list(names))})
    return table.cast(table.schema.set(index, field))


def read_features(
    features: FeatureFiles,
    part: FeaturePart,
    names: Sequence[str] = (),
    shown: ShownQueries | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a part in batches with `features_schema`; a missing label is null.

    names: feature names of the first file; InvalidData if the names of this file differ.
    shown: queries to read. Row groups without any of them are not read.
    """
    path = features.paths[part.file]
    if path.endswith(_LETOR_SUFFIXES):
        yield _chosen(_letor_table(features.url, path), shown)
        return
    fs, _ = open_filesystem(features.url)
    with naming_file(path, "Parquet file"), fs.open_input_file(path) as stream:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        columns = _check_columns(file, path)
        if difference := name_difference(names, _names(file, path)):
            raise InvalidData(f"{path}: {difference} in another file; write all files in one order")
        first, last = (file.num_row_groups * k // part.of for k in (part.k, part.k + 1))
        groups = [g for g in range(first, last) if _any_shown(file, g, shown)]
        if not groups:
            return
        for batch in file.iter_batches(BATCH_ROWS, groups, columns, use_threads=False):
            yield _chosen(_typed(batch, path), shown)


def _any_shown(file: pq.ParquetFile, group: int, shown: ShownQueries | None) -> bool:
    if shown is None:
        return True
    ids = file.read_row_group(group, columns=["query_id"], use_threads=False)["query_id"]
    return bool(shown.contains(ids.cast(pa.string())).any())


def _chosen(table: pa.Table, shown: ShownQueries | None) -> pa.Table:
    return table if shown is None else table.filter(pa.array(shown.contains(table["query_id"])))


def _check_columns(file: pq.ParquetFile, path: str) -> list[str]:
    columns = [n for n in features_schema.names if n in file.schema_arrow.names]
    missing = [n for n in features_schema.names if n not in columns and n != "label"]
    if missing:
        raise InvalidData(f"{path}: no column {missing[0]}; expected query_id, doc_id, features")
    return columns


def name_difference(expected: Sequence[str], names: Sequence[str]) -> str:
    """Return a text on the first difference of two lists of names; "" if equal or one is empty."""
    if not expected or not names or list(expected) == list(names):
        return ""
    if len(expected) != len(names):
        return f"{len(names)} features instead of {len(expected)}"
    i = next(i for i, pair in enumerate(zip(expected, names, strict=True)) if len(set(pair)) > 1)
    return f"feature {i + 1} is {names[i]} instead of {expected[i]}"


def _names(file: pq.ParquetFile, path: str) -> list[str]:
    """Return the feature names in the column's Arrow metadata, or else in its Spark metadata."""
    schema = file.schema_arrow
    index = schema.get_field_index("features")
    text = (schema.field(index).metadata or {}).get(_NAMES.encode()) if index >= 0 else None
    if text is not None:
        content = json.loads(text)
    else:
        spark_schema = json.loads((file.metadata.metadata or {}).get(_SPARK_METADATA, b"{}"))
        columns = {f["name"]: f["metadata"] for f in spark_schema.get("fields", [])}
        content = columns.get("features", {}).get(_NAMES, [])
    return clean_names(content, path)


def clean_names(names: Sequence[object], source: str) -> list[str]:
    """Return feature names as LightGBM's text format allows them. source: names them in errors."""
    clean = [_INVALID_IN_NAMES.sub("_", str(name)) for name in names]
    if len(set(clean)) < len(clean):
        repeated = max(clean, key=clean.count)
        raise InvalidData(f"{source}: two features are named {repeated}; names must be unique")
    return clean


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
                f"{path}: {name} is {column.type}, expected {field.type}: {reason}"
            ) from None
        if typed.null_count and not field.nullable:
            raise InvalidData(
                f"{path}: {name} is null in {typed.null_count:,} of {len(typed):,} rows; "
                "every row must have a value"
            )
        if (wrong := invalid_rows(typed)) is not None:
            raise InvalidData(
                f"{path}: {name} is not valid UTF-8 in {wrong.sum():,} of {len(typed):,} rows; "
                "write the file again"
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
