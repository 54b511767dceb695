"""Read JSON lines and CSV in tasks, from byte ranges of files that the driver assigns.

A line that cannot be read as a row gets a `problem`, and `raw` contains its text.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from types import MappingProxyType
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.fs as pafs

from ulr.clicklog.contract import MAX_ROW_BYTES
from ulr.clicklog.csv_rows import header_names, parse_csv
from ulr.clicklog.damaged import naming_file
from ulr.clicklog.files import LogFiles, check_columns, check_renamed, folder_columns
from ulr.clicklog.json_lines import first_names, parse_json
from ulr.clicklog.lines import LongLine, read_blocks
from ulr.clicklog.mapping import stored_schema
from ulr.clicklog.parquet import on_day, plan_tasks
from ulr.clicklog.raw import shorten
from ulr.errors import InvalidData
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import OPTIONAL_COLUMNS, reading

_COMPRESSED = (".gz", ".bz2", ".lz4", ".zst")  # read by Arrow as streams
_HEADER_BYTES = 64 << 10  # read at a time to find the header of a CSV file


@dataclass(frozen=True)
class ByteRange:
    """The lines of a file that begin in [start, end); end None: to the end of the file.

    source: the file's URL. folder: columns that the file's folders define.
    """

    path: str
    source: str
    start: int
    end: int | None
    folder: Mapping[str, str | None]


@dataclass(frozen=True)
class TextReader:
    """Reads the byte ranges of tasks, by their numbers; day: the only date to read.

    schema: under the names of the file. names: those of the rows that are read. form: json or csv.
    """

    url: str
    tasks: list[list[ByteRange]]
    schema: pa.Schema
    day: dt.date | None
    names: list[str]
    form: str

    def rows(self, numbers: Iterable[int]) -> Iterator[pa.RecordBatch]:
        """Yield rows with the columns of `reading` of the contract's schema."""
        fs, _ = open_filesystem(self.url)
        for part in (r for n in numbers for r in self.tasks[n]):
            for table in self._tables(fs, part):
                rows = _with_source(table, part.source, self.schema).rename_columns(self.names)
                yield rows if self.day is None else rows.filter(on_day(rows["shown_at"], self.day))

    def _tables(self, fs: pafs.FileSystem, part: ByteRange) -> Iterator[pa.Table]:
        parse = partial(parse_json, schema=self.schema, folder=part.folder)
        skipped = 0
        if self.form == "csv":
            header = read_header(fs, part.path)
            names = header_names(header)
            parse = partial(parse_csv, schema=self.schema, folder=part.folder, names=names)
            skipped = len(header) if part.start == 0 else 0
        for block in _blocks(fs, part):
            if isinstance(block, LongLine):
                yield _long_line(block, self.schema)
            else:
                yield from parse(block[skipped:])
            skipped = 0


def open_text(
    log: LogFiles,
    form: str,
    schema: pa.Schema,
    parallelism: int,
    stored: Mapping[str, str] = MappingProxyType({}),
) -> TextReader:
    """Return a reader of the log; raise UserError for a log without the required columns.

    stored: the name in the files of each column that has another name there. Lines of JSON may
    lack any column, so only the names of required columns are looked for, in the first lines.
    """
    renamed = stored_schema(schema, stored)
    names, path = column_names(log, form, renamed) if form == "csv" or stored else ([], "")
    if form == "csv":
        check_columns(names, schema, path, stored)
    elif names:
        required = {n: text for n, text in stored.items() if n not in OPTIONAL_COLUMNS}
        check_renamed(names, path, required)
    tasks = plan_tasks(log, parallelism, partial(_ranges, log, renamed))
    return TextReader(log.storage.url, tasks, renamed, log.day, reading(schema).names, form)


def column_names(log: LogFiles, form: str, schema: pa.Schema) -> tuple[list[str], str]:
    """Return the columns of the first file that is not empty and of its folders, and its path."""
    for file, path in zip(log.files, log.paths, strict=True):
        if form == "csv":
            names = header_names(read_header(log.storage.fs, path))
        else:
            with naming_file(path), _open(log.storage.fs, path) as stream:
                names = first_names(stream.read(_HEADER_BYTES))
        if any(names):
            return [*names, *folder_columns(file.path, schema)], path
    return [], log.paths[0]


def source_url(folder: str, path: str) -> str:
    """Return the URL of a file below a folder."""
    base = folder.partition("?")[0] if "://" in folder else f"file:{quote(folder)}"
    return f"{base.rstrip('/')}/{quote(path)}"


def read_header(fs: pafs.FileSystem, path: str) -> bytes:
    """Return a file up to the end of its first line that is not blank; b"" if there is none."""
    content = b""
    with naming_file(path), _open(fs, path) as stream:
        while chunk := stream.read(_HEADER_BYTES):
            content += chunk
            start = len(content) - len(content.lstrip())
            end = content.find(b"\n", start)
            if start < len(content) and end >= 0:
                return content[: end + 1]
            if len(content) > MAX_ROW_BYTES:
                raise InvalidData(
                    f"{path} has no line end in its first {MAX_ROW_BYTES >> 20} MB; a CSV file "
                    "begins with a line of column names"
                )
    return content if content.strip() else b""


def _ranges(log: LogFiles, schema: pa.Schema, target: int) -> Iterator[tuple[ByteRange, int]]:
    """Yield byte ranges with their sizes; compressed files are not divided."""
    for file, path in zip(log.files, log.paths, strict=True):
        source = source_url(log.storage.url, file.path)
        folder = folder_columns(file.path, schema)
        if _is_compressed(path) or file.size <= target:
            yield ByteRange(path, source, 0, None, folder), file.size
            continue
        pieces = -(-file.size // target)
        bounds = [file.size * p // pieces for p in range(pieces + 1)]
        for start, end in pairwise(bounds):
            yield ByteRange(path, source, start, end, folder), end - start


def _blocks(fs: pafs.FileSystem, part: ByteRange) -> Iterator[bytes]:
    with naming_file(part.path), _open(fs, part.path) as stream:
        yield from read_blocks(stream, part.start, part.end)


def _long_line(line: LongLine, schema: pa.Schema) -> pa.Table:
    """Return a line that is too long as a row without values."""
    text = shorten(line.decode(errors="replace"))
    columns = {field.name: pa.nulls(1, field.type) for field in schema}
    return pa.table(columns | {"problem": ["too_large"], "raw": [text]})


def _is_compressed(path: str) -> bool:
    return path.endswith(_COMPRESSED)


def _open(fs: pafs.FileSystem, path: str) -> pa.NativeFile:
    return fs.open_input_stream(path) if _is_compressed(path) else fs.open_input_file(path)


def _with_source(table: pa.Table, source: str, schema: pa.Schema) -> pa.RecordBatch:
    zeros = pa.array(np.zeros(table.num_rows, np.int32))
    added = {"source": pa.DictionaryArray.from_arrays(zeros, [source]), "repeats": zeros}
    columns = {name: table[name] for name in table.column_names} | added
    full = reading(schema, inside=True)
    rows = pa.table([columns[name] for name in full.names], schema=full)
    return rows.combine_chunks().to_batches()[0] if rows.num_rows else _empty(full)


def _empty(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema=schema)
