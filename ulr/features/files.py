"""Feature files: Parquet or LETOR text, of one date, or of the dates of a window."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.clicklog.damaged import naming_file
from ulr.errors import UserError
from ulr.features.layout import ALL, DATE, FeatureLayout, may_be_date, valid_names
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.storage import Storage, StoredFile

_PART_BYTES = 64 << 20  # larger files are read by several tasks
NAMES = "names"  # metadata of the column `features`: a JSON list of feature names
_SPARK_METADATA = b"org.apache.spark.sql.parquet.row.metadata"
LETOR_SUFFIXES = (".txt", ".txt.gz", ".letor", ".svm")
_EPOCH = dt.date(1970, 1, 1)


class FeaturePart(NamedTuple):
    """Row groups of a file of features: the k-th of `of` parts. size: bytes, about."""

    file: int
    k: int
    of: int
    size: int


@dataclass(frozen=True)
class FeatureFiles:
    """The files of a features table, on the filesystem of `url`.

    every   the columns of the layout must be all numeric columns of every file
    by_day  rows are read with their day: a (query, document) has features of several days
    days    dates to read, in days since 1970, of a table that has dates; None: all rows
    folder_days  the date of each file, where folders have it; empty: rows have it
    """

    url: str
    files: list[StoredFile]
    layout: FeatureLayout = field(default_factory=FeatureLayout)
    every: bool = False
    by_day: bool = False
    days: tuple[int, ...] | None = None
    folder_days: tuple[int, ...] = ()

    @property
    def paths(self) -> list[str]:
        return [file.path for file in self.files]

    @property
    def where(self) -> str:
        """The first file, for messages."""
        return self.files[0].path

    @property
    def identity(self) -> Any:
        """What decides the rows, for fingerprints: name, size and time of the files, the layout."""
        files = [[f.path.rpartition("/")[2], f.size, f.mtime_ns] for f in self.files]
        if self.layout.is_default and self.days is None:
            return files
        return {
            "files": files,
            "keys": dict(self.layout.keys),
            "columns": self.layout.columns,
            "by_day": self.by_day,
            "days": self.folder_days or self.days,
        }

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def parts(self) -> list[FeaturePart]:
        """Return all files, those of many megabytes in several parts."""
        parts = []
        for number, file in enumerate(self.files):
            of = 1 if file.path.endswith(LETOR_SUFFIXES) else max(1, file.size // _PART_BYTES)
            parts += [FeaturePart(number, k, of, file.size // of) for k in range(of)]
        return parts

    def names(self) -> list[str]:
        """Return the names of the features; empty if neither columns nor metadata have them."""
        return self.layout.names or feature_names(
            self.url, self.files[0].path, self.layout.column("features")
        )


def find_features(
    url: str,
    layout: FeatureLayout | None = None,
    *,
    dates: Sequence[dt.date] = (),
    by_day: bool = False,
) -> FeatureFiles:
    """Return the file at `url`, or all files of a folder; raise UserError if there are none.

    Of a table with dates (a column, or folders dt=DATE) these are the files of the latest date up
    to the last of `dates`; by_day: those of all `dates`.
    """
    layout = layout or FeatureLayout()
    fs, path = open_filesystem(url)
    info = fs.get_file_info(path)
    if info.type == pafs.FileType.File:
        files = [StoredFile(path, info.size, info.mtime_ns)]
    else:
        storage = Storage(url)
        files = [StoredFile(storage.path(f.path), f.size, f.mtime_ns) for f in storage.files()]
    if not files:
        raise UserError(f"no feature files at {url!r}; set features.path to a folder or file")
    found = _of_dates(FeatureFiles(url, files, layout), dates, by_day)
    return _checked(found)


def _of_dates(found: FeatureFiles, dates: Sequence[dt.date], by_day: bool) -> FeatureFiles:
    """Return the files of the dates to read, with the days of the rows to read."""
    folders = [folder_day(path, found.layout.column(DATE)) for path in found.paths]
    in_folders = [day for day in folders if day is not None]
    if in_folders and len(in_folders) < len(folders):
        other = found.paths[folders.index(None)]
        raise UserError(f"{other} is in no folder with a date, as other features are; move it")
    days = [{day} for day in in_folders] or _days_of_rows(found, by_day)
    if not days:
        return found
    chosen = chosen_days(set().union(*days), dates, by_day, f"features at {found.url!r}")
    kept = [n for n, own in enumerate(days) if own.intersection(chosen)]
    return replace(
        found,
        files=[found.files[n] for n in kept],
        days=chosen,
        by_day=by_day,
        folder_days=tuple(in_folders[n] for n in kept) if in_folders else (),
    )


def chosen_days(
    days: set[int], dates: Sequence[dt.date], by_day: bool, source: str
) -> tuple[int, ...]:
    """Return the days of a table to read: the latest up to the last date; by_day: all dates.

    days: of the table, since 1970-01-01. Raises UserError if it has none of them.
    """
    wanted = [day_number(date) for date in dates] if dates else [max(days)]
    chosen = days.intersection(wanted) if by_day else {d for d in days if d <= wanted[-1]}
    if not chosen:
        first, last = (_EPOCH + dt.timedelta(days=bound) for bound in (min(days), max(days)))
        window = f"{dates[0]} to {dates[-1]}" if by_day else f"or before {dates[-1]}"
        raise UserError(
            f"{source} have no date {window}; they have {first} to {last}; give other dates, or "
            "write the features of these"
        )
    return tuple(sorted(chosen)) if by_day else (max(chosen),)


def day_number(date: dt.date) -> int:
    """Return the days since 1970-01-01."""
    return (date - _EPOCH).days


def folder_day(path: str, column: str) -> int | None:
    """Return the date of a folder such as dt=2026-01-31 in the path."""
    for folder in path.split("/")[:-1]:
        name, equals, value = folder.partition("=")
        if equals and name == column:
            try:
                return day_number(dt.date.fromisoformat(value))
            except ValueError:
                raise UserError(
                    f"{path}: {folder} is not a date, such as {column}=2026-01-31"
                ) from None
    return None


def _days_of_rows(found: FeatureFiles, by_day: bool) -> list[set[int]]:
    """Return the days in each file's column of dates; empty without such a column."""
    layout, column = found.layout, found.layout.column(DATE)
    letor = found.where.endswith(LETOR_SUFFIXES)
    schema = pa.schema([]) if letor else schema_of(found.url, found.where)
    needed = by_day or DATE in layout.keys
    if column not in schema.names or not (needed or may_be_date(schema.field(column).type)):
        if needed:
            setting = "features.as_of=day" if by_day else "features.keys.dt"
            raise UserError(
                f"{setting}: {found.where} has no column {column} with the date of each row; set "
                f"features.keys.dt to such a column, or write folders {column}=DATE"
            )
        return []
    fs, _ = open_filesystem(found.url)
    days = []
    for path in found.paths:
        with naming_file(path, "Parquet file"):
            dates = pq.read_table(path, columns=[column], filesystem=fs, partitioning=None)
        distinct = pc.unique(dates[column].combine_chunks())
        own = layout.days(pa.record_batch([distinct], names=[column]), path)
        days.append(set() if own is None else set(own.tolist()))
    return days


def _checked(found: FeatureFiles) -> FeatureFiles:
    """Return the files with the columns that ALL stands for; check the columns of the first."""
    if found.layout.is_default:
        return found
    if found.where.endswith(LETOR_SUFFIXES):
        raise UserError(
            f"{found.where} is LETOR text, which has no columns; set features.columns and "
            "features.keys for Parquet only"
        )
    schema = schema_of(found.url, found.where)
    layout = found.layout.resolved(schema, found.where)
    layout.check(schema, found.where)
    return replace(found, layout=layout, every=found.layout.columns == ALL)


def schema_of(url: str, path: str) -> pa.Schema:
    """Return the Arrow schema of a Parquet file."""
    fs, _ = open_filesystem(url)
    with naming_file(path, "Parquet file"), fs.open_input_file(path) as stream:
        return pq.ParquetFile(stream).schema_arrow


def feature_names(url: str, path: str, column: str = "features") -> list[str]:
    """Return the names in the metadata of a file's column of features; empty if it has none."""
    if path.endswith(LETOR_SUFFIXES):
        return []
    fs, _ = open_filesystem(url)
    with naming_file(path, "Parquet file"), fs.open_input_file(path) as stream:
        return names_in(pq.ParquetFile(stream), path, column)


def names_in(file: pq.ParquetFile, path: str, column: str = "features") -> list[str]:
    """Return the feature names in a column's Arrow metadata, or else in its Spark metadata."""
    schema = file.schema_arrow
    index = schema.get_field_index(column)
    text = (schema.field(index).metadata or {}).get(NAMES.encode()) if index >= 0 else None
    if text is not None:
        content = json.loads(text)
    else:
        spark_schema = json.loads((file.metadata.metadata or {}).get(_SPARK_METADATA, b"{}"))
        columns = {f["name"]: f["metadata"] for f in spark_schema.get("fields", [])}
        content = columns.get(column, {}).get(NAMES, [])
    return valid_names(content, path)


def with_names(table: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return the table with feature names in the metadata of its column `features`."""
    index = table.schema.get_field_index("features")
    field = table.schema.field(index).with_metadata({NAMES: json.dumps(list(names))})
    return table.cast(table.schema.set(index, field))
