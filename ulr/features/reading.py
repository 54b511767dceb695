"""Rows of feature files as Arrow tables with `features_schema`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ulr.clicklog.damaged import naming_file
from ulr.engine.columns import list_array
from ulr.errors import InvalidData
from ulr.features.files import LETOR_SUFFIXES, FeatureFiles, FeaturePart, names_in
from ulr.features.layout import day_field
from ulr.features.letor import read_letor
from ulr.features.shown import ShownQueries
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import features_schema

BATCH_ROWS = 65_536


def read_features(
    features: FeatureFiles,
    part: FeaturePart,
    names: Sequence[str] = (),
    shown: ShownQueries | None = None,
) -> Iterator[pa.Table]:
    """Yield the rows of a part in batches with `features_schema`; a missing label is null.

    Rows have a further column `day_field` if the features are read by day. names: feature names
    of the first file; InvalidData if the names of this file differ. shown: queries to read. Row
    groups without any of them are not read.
    """
    path, layout = features.paths[part.file], features.layout
    if path.endswith(LETOR_SUFFIXES):
        rows = _letor_table(features.url, path)
        yield chosen_rows(rows, _folder_days(features, part, rows.num_rows), features, shown)
        return
    fs, _ = open_filesystem(features.url)
    with naming_file(path, "Parquet file"), fs.open_input_file(path) as stream:
        file = pq.ParquetFile(stream, page_checksum_verification=True)
        columns = layout.check(file.schema_arrow, path, features.every)
        if layout.columns is None:
            _check_names(names, file, path, layout.column("features"))
        first, last = (file.num_row_groups * k // part.of for k in (part.k, part.k + 1))
        key = layout.column("query_id")
        groups = [g for g in range(first, last) if _any_shown(file, g, key, shown)]
        if not groups:
            return
        for batch in file.iter_batches(BATCH_ROWS, groups, columns, use_threads=False):
            days = _folder_days(features, part, batch.num_rows)
            if days is None and features.days is not None:
                days = layout.days(batch, path)
            yield chosen_rows(layout.rows(batch, path), days, features, shown)


def _folder_days(features: FeatureFiles, part: FeaturePart, rows: int) -> np.ndarray | None:
    if not features.folder_days:
        return None
    return np.full(rows, features.folder_days[part.file], np.int32)


def chosen_rows(
    table: pa.Table, days: np.ndarray | None, features: FeatureFiles, shown: ShownQueries | None
) -> pa.Table:
    """Return the rows of the days and queries to read. days: int32 per row, if there are dates."""
    keep = None if shown is None else shown.contains(table["query_id"])
    if days is not None and features.days is not None and not features.folder_days:
        of_days = np.isin(days, features.days)
        keep = of_days if keep is None else keep & of_days
    if features.by_day:
        table = table.append_column(day_field, pa.array(days, pa.int32()))
    return table if keep is None else table.filter(pa.array(keep))


def _any_shown(file: pq.ParquetFile, group: int, key: str, shown: ShownQueries | None) -> bool:
    if shown is None:
        return True
    ids = file.read_row_group(group, columns=[key], use_threads=False)[key]
    return bool(shown.contains(ids.cast(pa.string())).any())


def _check_names(names: Sequence[str], file: pq.ParquetFile, path: str, column: str) -> None:
    if difference := name_difference(names, names_in(file, path, column)):
        raise InvalidData(f"{path}: {difference} in another file; write all files in one order")


def name_difference(expected: Sequence[str], names: Sequence[str]) -> str:
    """Return a text on the first difference of two lists of names; "" if equal or one is empty."""
    if not expected or not names or list(expected) == list(names):
        return ""
    if len(expected) != len(names):
        return f"{len(names)} features instead of {len(expected)}"
    i = next(i for i, pair in enumerate(zip(expected, names, strict=True)) if len(set(pair)) > 1)
    return f"feature {i + 1} is {names[i]} instead of {expected[i]}"


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
