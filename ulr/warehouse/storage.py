"""Files on a local path or an Arrow filesystem URL: listed, read, and replaced in one step."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import tempfile
import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.errors import UserError
from ulr.redact import redact_text
from ulr.warehouse.durable import sync_parents, sync_path, sync_tree
from ulr.warehouse.filesystem import PreconditionFailed, open_filesystem
from ulr.warehouse.object_store import KINDS, ObjectStore
from ulr.warehouse.streams import HashingFile, Written, row_groups

_CAN_RENAME = ("local", "hdfs")  # object stores copy instead, file by file
_BLOCK = 1 << 22  # bytes read at a time


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

    @cached_property
    def _objects(self) -> ObjectStore | None:
        """The client for conditional writes, on an object store."""
        if self.fs.type_name not in KINDS:
            return None
        return ObjectStore(self.url, self.fs, self.root.partition("/")[0])

    @property
    def is_conditional(self) -> bool:
        """Whether `swap` compares and writes in one step, without a lock."""
        return self._objects is not None

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
        files = self.all_files(*parts)
        return [f for f in files if not any(p[:1] in "._" for p in f.path.split("/"))]

    def all_files(self, *parts: str) -> list[StoredFile]:
        """Return all files below, sorted by path; the paths are relative to this folder."""
        start = len(self.root) + 1
        return [
            StoredFile(i.path[start:], i.size, i.mtime_ns)
            for i in self._infos(parts, recursive=True)
            if i.is_file
        ]

    def stat(self, paths: Sequence[str]) -> list[StoredFile]:
        """Return size and time of files, given by the filesystem's paths.

        Raises FileNotFoundError.
        """
        infos = self.fs.get_file_info(list(paths))
        if missing := [i.path for i in infos if not i.is_file]:
            raise FileNotFoundError(missing[0])
        return [StoredFile(i.path, i.size, i.mtime_ns) for i in infos]

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        """Return the size of each file of this folder, None if there is no such file."""
        infos = self.fs.get_file_info([self.path(name) for name in names])
        return [i.size if i.is_file else None for i in infos]

    def hash_of(self, *parts: str) -> str:
        """Return the SHA-256 of a file's content; it need not fit in memory."""
        digest = hashlib.sha256()
        with self.fs.open_input_stream(self.path(*parts)) as stream:
            while content := stream.read(_BLOCK):
                digest.update(content)
        return digest.hexdigest()

    def _infos(self, parts: tuple[str, ...], recursive: bool) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(self.path(*parts), allow_not_found=True, recursive=recursive)
        return sorted(self.fs.get_file_info(selector), key=lambda i: i.path)

    def read_bytes(self, *parts: str) -> bytes:
        """Return the content of a file; of an object, from one request, so never of two versions.

        Raises FileNotFoundError.
        """
        path = self.path(*parts)
        if self._objects is not None:
            current = self._objects.read(path)
            if current is None:
                raise FileNotFoundError(path)
            return current[0]
        with self.fs.open_input_stream(path) as stream:
            return bytes(stream.read())

    def read_text(self, *parts: str) -> str:
        return self.read_bytes(*parts).decode()

    def read_json(self, *parts: str) -> dict[str, Any] | None:
        """Return the object in a JSON file, or None if there is no such file."""
        try:
            content: dict[str, Any] = json.loads(self.read_text(*parts))
        except FileNotFoundError:
            return None
        return content

    def read_version(self, *parts: str) -> tuple[bytes, str] | None:
        """Return content and version of a file for `swap`, or None if there is no such file."""
        if self._objects is not None:
            return self._objects.read(self.path(*parts))
        try:
            content = self.read_bytes(*parts)
        except FileNotFoundError:
            return None
        return content, hashlib.sha256(content).hexdigest()

    def swap(self, content: bytes, expected: str | None, *parts: str) -> str:
        """Replace a file if it still has the expected version; return the new version.

        expected: None if there must be no such file. Raises `PreconditionFailed`. On an object
        store the comparison is part of the write. Elsewhere a lock must exclude other writers.
        """
        if self._objects is not None:
            try:
                return self._objects.write(self.path(*parts), content, expected)
            except FileNotFoundError:  # there is no bucket; the URL may allow to create it
                self.fs.create_dir(self.path(*parts[:-1]), recursive=True)
                return self._objects.write(self.path(*parts), content, expected)
        current = self.read_version(*parts)
        if (current[1] if current else None) != expected:
            raise PreconditionFailed(self.path(*parts))
        return self._replace(self.path(*parts), lambda f: f.write(content), durable=True).sha256

    def write_json(self, content: dict[str, Any], *parts: str) -> None:
        """Write a JSON file atomically and durably."""
        self.write_text(json_text(content), *parts)

    def write_text(self, text: str, *parts: str) -> None:
        """Write a text file atomically and durably."""
        self._replace(self.path(*parts), lambda file: file.write(text.encode()), durable=True)

    def write_chunks(self, chunks: Iterable[bytes], *parts: str) -> None:
        """Write a file atomically and durably; the content need not fit in memory.

        For an object store it is collected in a temporary file first: see `_replace`.
        """
        target = self.path(*parts)
        if self.fs.type_name in _CAN_RENAME:
            self._replace(target, lambda f: [f.write(c) for c in chunks], durable=True)
            return
        with tempfile.TemporaryFile() as spool:
            for chunk in chunks:
                spool.write(chunk)
            spool.seek(0)
            self.fs.create_dir(target.rpartition("/")[0], recursive=True)
            with self.fs.open_output_stream(target) as stream:
                shutil.copyfileobj(spool, stream, _BLOCK)

    def write_table(self, table: pa.Table, *parts: str, row_group: int = 131_072) -> int:
        """Write a Parquet file atomically and return its size; equal tables give equal bytes.

        `make_durable` flushes it: once for all files of a folder is faster.
        """
        return self.write_tables([table], table.schema, *parts, row_group=row_group)

    def write_tables(
        self, tables: Iterable[pa.Table], schema: pa.Schema, *parts: str, row_group: int = 131_072
    ) -> int:
        """Write tables as one Parquet file, as `write_table` does; they need not fit in memory."""

        def write(file: HashingFile) -> None:
            with (
                pa.PythonFile(file, mode="w") as sink,
                pq.ParquetWriter(sink, schema, compression="zstd", compression_level=1) as writer,
            ):
                for rows in row_groups(tables, schema, row_group):
                    writer.write_table(rows, row_group)

        return self._replace(self.path(*parts), write).size

    def make_durable(self) -> None:
        """Flush all files of this folder to the disk, and the names of the folders above it.

        Object stores and HDFS acknowledge a file when it is stored.
        """
        if self.is_local:
            sync_tree(self.root)
            sync_parents(self.root, os.path.dirname(self.root))

    def _replace(
        self, target: str, write: Callable[[HashingFile], Any], *, durable: bool = False
    ) -> Written:
        """Replace a file; a reader never gets a part of it.

        If files can be renamed, a temporary file is written and renamed. On a local filesystem this
        replaces the old file in one step. On HDFS Arrow removes the old file first, so that for a
        moment there is none (by Arrow's source; not tested against HDFS). An object store shows an
        upload when it is closed, and Arrow closes it on an error too; therefore all bytes are
        produced before the upload begins.
        """
        folder, _, name = target.rpartition("/")
        if self.fs.type_name not in _CAN_RENAME:
            content = pa.BufferOutputStream()
            file = HashingFile(content)
            write(file)
            self.fs.create_dir(folder, recursive=True)
            with self.fs.open_output_stream(target) as stream:
                stream.write(content.getvalue())
            return file.written()
        self.fs.create_dir(folder, recursive=True)
        temporary = f"{folder}/.{name}.{uuid.uuid4().hex}"
        try:
            with self.fs.open_output_stream(temporary) as stream:
                file = HashingFile(stream)
                write(file)
            if durable and self.is_local:
                sync_path(temporary)
            self.fs.move(temporary, target)
            if durable and self.is_local:
                sync_parents(target, self.root)
        except BaseException:
            with contextlib.suppress(OSError):
                self.fs.delete_file(temporary)
            raise
        return file.written()

    def delete(self, *parts: str) -> None:
        info = self.fs.get_file_info(self.path(*parts))
        if info.type == pafs.FileType.Directory:
            self.fs.delete_dir(info.path)
        elif info.is_file:
            self.fs.delete_file(info.path)


def write_file(url: str, text: str) -> None:
    """Write a text file atomically to a local path or a URL of any filesystem."""
    folder, name = _folder_and_name(url)
    folder.write_text(text, name)


def write_chunks(url: str, chunks: Iterable[bytes]) -> None:
    """Write a file atomically to a local path or a URL of any filesystem."""
    folder, name = _folder_and_name(url)
    folder.write_chunks(chunks, name)


def delete_file(url: str) -> None:
    """Delete a file at a local path or URL, if there is one."""
    folder, name = _folder_and_name(url)
    folder.delete(name)


def _folder_and_name(url: str) -> tuple[Storage, str]:
    base, options = url, ""
    if "://" in url:
        base, question, query = url.partition("?")
        options = question + query
    folder, slash, name = base.rpartition("/")
    if not name or folder.endswith(":/"):
        raise UserError(f"{redact_text(url)!r} names no file; give a path or URL of a file")
    return Storage((folder or slash or ".") + options), name


def json_text(content: dict[str, Any]) -> str:
    """Return the content of a JSON file; equal values have equal bytes."""
    return json.dumps(content, indent=1, sort_keys=True) + "\n"
