"""Files on a local path or an Arrow filesystem URL."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.errors import UserError
from ulr.redact import redact_text

_SPARK_SCHEMES = {"s3a://": "s3://", "s3n://": "s3://"}  # Spark's names, and Arrow's
_CAN_RENAME = ("local", "hdfs")  # object stores copy instead, file by file


@dataclass(frozen=True)
class StoredFile:
    """A file in a listing: enough to detect a change."""

    path: str
    size: int
    mtime_ns: int


class Storage:
    """A folder on a filesystem; the paths that its methods take are relative to it."""

    def __init__(self, url: str) -> None:
        self.fs, self.root = open_filesystem(url)
        # Absolute, so that tasks on other machines do not resolve it in their working folder.
        self.url = self.root if "://" not in url else url

    @property
    def is_local(self) -> bool:
        """Whether the folder is on a local filesystem."""
        return isinstance(self.fs, pafs.LocalFileSystem)

    def path(self, *parts: str) -> str:
        """Return the filesystem's path of a file or folder."""
        return "/".join((self.root, *(p for p in parts if p)))

    def child(self, *parts: str) -> str:
        """Return the URL of a folder below this one."""
        base, question, query = self.url.partition("?")
        return "/".join((base.rstrip("/"), *parts)) + question + query

    def shown(self, *parts: str) -> str:
        """Return the path for messages: relative if possible, without options and passwords."""
        if self.is_local:
            path = self.path(*parts)
            relative = os.path.relpath(path)
            return path if relative.startswith(os.pardir) else relative
        return redact_text(self.child(*parts).partition("?")[0])

    def exists(self, *parts: str) -> bool:
        return bool(self.fs.get_file_info(self.path(*parts)).type != pafs.FileType.NotFound)

    def is_empty(self) -> bool:
        """Return whether the folder is empty or does not exist."""
        return not self._infos((), recursive=False)

    def is_file(self) -> bool:
        return bool(self.fs.get_file_info(self.root).is_file)

    def folders(self, *parts: str) -> list[str]:
        """Return the names of the folders directly below, sorted."""
        return [i.base_name for i in self._infos(parts, recursive=False) if not i.is_file]

    def files(self, *parts: str) -> list[StoredFile]:
        """Return all data files below, sorted by path; names with '.' or '_' in front are not data.

        The paths are relative to this folder.
        """
        start = len(self.root) + 1
        files = [
            StoredFile(i.path[start:], i.size, i.mtime_ns)
            for i in self._infos(parts, recursive=True)
            if i.is_file
        ]
        return [f for f in files if not any(p[:1] in "._" for p in f.path.split("/"))]

    def stat(self, paths: Sequence[str]) -> list[StoredFile]:
        """Return size and time of files, given by the filesystem's paths."""
        return [StoredFile(i.path, i.size, i.mtime_ns) for i in self.fs.get_file_info(list(paths))]

    def _infos(self, parts: tuple[str, ...], recursive: bool) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(self.path(*parts), allow_not_found=True, recursive=recursive)
        return sorted(self.fs.get_file_info(selector), key=lambda i: i.path)

    def read_bytes(self, *parts: str) -> bytes:
        with self.fs.open_input_stream(self.path(*parts)) as stream:
            return bytes(stream.read())

    def read_text(self, *parts: str) -> str:
        return self.read_bytes(*parts).decode()

    def read_json(self, *parts: str) -> dict[str, Any] | None:
        """Return the object in a JSON file, or None if there is no such file."""
        if not self.exists(*parts):
            return None
        content: dict[str, Any] = json.loads(self.read_text(*parts))
        return content

    def write_json(self, content: dict[str, Any], *parts: str) -> None:
        """Write a JSON file atomically."""
        self.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", *parts)

    def write_text(self, text: str, *parts: str) -> None:
        """Write a text file atomically."""
        self._replace(self.path(*parts), lambda stream: stream.write(text.encode()))

    def write_table(self, table: pa.Table, *parts: str, row_group: int = 131_072) -> int:
        """Write a Parquet file atomically and return its size; equal tables give equal bytes."""
        return self.write_tables([table], table.schema, *parts, row_group=row_group)

    def write_tables(
        self, tables: Iterable[pa.Table], schema: pa.Schema, *parts: str, row_group: int = 131_072
    ) -> int:
        """Write tables as one Parquet file, as `write_table` does; they need not fit in memory."""
        target = self.path(*parts)

        def write(stream: pa.NativeFile) -> None:
            with pq.ParquetWriter(
                stream, schema, compression="zstd", compression_level=1
            ) as writer:
                for rows in _row_groups(tables, schema, row_group):
                    writer.write_table(rows, row_group)

        self._replace(target, write)
        return int(self.fs.get_file_info(target).size)

    def _replace(self, target: str, write: Callable[[pa.NativeFile], Any]) -> None:
        """Replace a file; a reader never gets a part of it.

        If files can be renamed, a temporary file is written and renamed. On a local filesystem this
        replaces the old file in one step. On HDFS Arrow removes the old file first, so that for a
        moment there is none (by Arrow's source; not tested against HDFS). An object store shows an
        upload when it is closed, and Arrow closes it on an error too; therefore all bytes are
        produced before the upload begins.
        """
        folder, _, name = target.rpartition("/")
        self.fs.create_dir(folder, recursive=True)
        if self.fs.type_name not in _CAN_RENAME:
            content = pa.BufferOutputStream()
            write(content)
            with self.fs.open_output_stream(target) as stream:
                stream.write(content.getvalue())
            return
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}"
        try:
            with self.fs.open_output_stream(temporary) as stream:
                write(stream)
            self.fs.move(temporary, target)
        except BaseException:
            with contextlib.suppress(OSError):
                self.fs.delete_file(temporary)
            raise

    def delete(self, *parts: str) -> None:
        info = self.fs.get_file_info(self.path(*parts))
        if info.type == pafs.FileType.Directory:
            self.fs.delete_dir(info.path)
        elif info.is_file:
            self.fs.delete_file(info.path)


def _row_groups(tables: Iterable[pa.Table], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of all tables, each time a multiple of `rows`; the last table has the rest."""
    pending, empty = schema.empty_table(), True
    for table in tables:
        pending = pa.concat_tables([pending, table]) if pending.num_rows else table
        whole = pending.num_rows // rows * rows
        if whole:
            yield pending.slice(0, whole)
            pending, empty = pending.slice(whole), False
    if pending.num_rows or empty:
        yield pending


def open_filesystem(url: str) -> tuple[pafs.FileSystem, str]:
    """Return the filesystem and path of a URL or of a local path."""
    for spark_name, arrow_name in _SPARK_SCHEMES.items():
        if url.startswith(spark_name):
            url = arrow_name + url[len(spark_name) :]
    if "://" not in url:
        return pafs.LocalFileSystem(), os.path.abspath(url)
    try:
        fs, path = pafs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, OSError, ValueError) as error:
        raise UserError(
            f"cannot open {redact_text(url)!r}: {error}; use a local path or an Arrow filesystem "
            "URL (file, s3, gs, hdfs, abfs)"
        ) from None
    return fs, path.rstrip("/")
