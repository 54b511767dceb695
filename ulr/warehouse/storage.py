"""Files on a local path or any Arrow filesystem URL, with the few operations the service needs."""

from __future__ import annotations

import contextlib
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.fs as pafs
import pyarrow.parquet as pq

from ulr.errors import UserError
from ulr.redact import redact_text

# Spark's names for filesystems that Arrow calls otherwise.
_ALIASES = {"s3a://": "s3://", "s3n://": "s3://"}
_CAN_RENAME = ("local", "hdfs")  # object stores copy instead, file by file


@dataclass(frozen=True)
class StoredFile:
    """A file as a listing shows it: enough to notice that it changed."""

    path: str
    size: int
    mtime_ns: int


class Storage:
    """A folder on some filesystem. Paths given to its methods are relative to that folder."""

    def __init__(self, url: str) -> None:
        self.fs, self.root = open_filesystem(url)
        # A relative path means the driver's working folder, wherever a task opens it again.
        self.url = self.root if "://" not in url else url

    @property
    def is_local(self) -> bool:
        """Whether the folder is on this machine's own filesystem."""
        return isinstance(self.fs, pafs.LocalFileSystem)

    def path(self, *parts: str) -> str:
        """A relative path as the filesystem spells it."""
        return "/".join((self.root, *(p for p in parts if p)))

    def child(self, *parts: str) -> str:
        """The URL of a folder below this one, for another process to open."""
        base, question, query = self.url.partition("?")
        return "/".join((base.rstrip("/"), *parts)) + question + query

    def shown(self, *parts: str) -> str:
        """Where that is, for people: from the working folder on, without options and passwords."""
        if self.is_local:
            path = self.path(*parts)
            near = os.path.relpath(path)
            return path if near.startswith(os.pardir) else near
        return redact_text(self.child(*parts).partition("?")[0])

    def exists(self, *parts: str) -> bool:
        """Whether a file or folder is there."""
        return self.fs.get_file_info(self.path(*parts)).type != pafs.FileType.NotFound

    def is_empty(self) -> bool:
        """Whether the folder holds nothing, or is not there."""
        return not self._infos((), recursive=False)

    def is_file(self) -> bool:
        """Whether the URL names a file rather than a folder."""
        return self.fs.get_file_info(self.root).is_file

    def folders(self, *parts: str) -> list[str]:
        """Names of the folders directly below, sorted."""
        return [i.base_name for i in self._infos(parts, recursive=False) if not i.is_file]

    def files(self, *parts: str) -> list[StoredFile]:
        """Every file below, by relative path; names that start with '.' or '_' are not data."""
        start = len(self.root) + 1
        found = [
            StoredFile(i.path[start:], i.size, i.mtime_ns)
            for i in self._infos(parts, recursive=True)
            if i.is_file
        ]
        return [f for f in found if not any(p[:1] in "._" for p in f.path.split("/"))]

    def _infos(self, parts: tuple[str, ...], recursive: bool) -> list[pafs.FileInfo]:
        selector = pafs.FileSelector(self.path(*parts), allow_not_found=True, recursive=recursive)
        return sorted(self.fs.get_file_info(selector), key=lambda i: i.path)

    def read_text(self, *parts: str) -> str:
        """A text file's content."""
        with self.fs.open_input_stream(self.path(*parts)) as stream:
            return stream.read().decode()

    def read_json(self, *parts: str) -> dict[str, Any] | None:
        """A JSON file's content, or None where there is none."""
        if not self.exists(*parts):
            return None
        return json.loads(self.read_text(*parts))

    def write_json(self, content: dict[str, Any], *parts: str) -> None:
        """Write a JSON file; a reader sees the old one or the new one, never a part."""
        self.write_text(json.dumps(content, indent=1, sort_keys=True) + "\n", *parts)

    def write_text(self, text: str, *parts: str) -> None:
        """Write a text file, whole or not at all."""
        self._replace(self.path(*parts), lambda stream: stream.write(text.encode()))

    def write_table(self, table: pa.Table, *parts: str, row_group: int = 131_072) -> int:
        """Write a Parquet file whole or not at all; same table, same bytes. Returns its size."""
        target = self.path(*parts)
        self._replace(
            target,
            lambda stream: pq.write_table(
                table, stream, compression="zstd", compression_level=1, row_group_size=row_group
            ),
        )
        return self.fs.get_file_info(target).size

    def _replace(self, target: str, write: Callable[[pa.NativeFile], Any]) -> None:
        """Put a file in the place of an older one, whole or not at all.

        Where a file can be renamed it is written aside first. On a local filesystem the new name
        takes the old one's place in one step; on HDFS Arrow removes the old file and then renames,
        so that a reader may for a moment find none, but never a part (by Arrow's source; no test
        here runs against HDFS). An object store shows an upload when it is closed; Arrow cannot
        abandon one and closes it on an error too, so that all bytes are made before it begins.
        """
        folder, _, name = target.rpartition("/")
        self.fs.create_dir(folder, recursive=True)
        if self.fs.type_name not in _CAN_RENAME:
            content = pa.BufferOutputStream()
            write(content)
            with self.fs.open_output_stream(target) as stream:
                stream.write(content.getvalue())
            return
        aside = f"{folder}/.{name}.{uuid.uuid4().hex}"
        try:
            with self.fs.open_output_stream(aside) as stream:
                write(stream)
            self.fs.move(aside, target)
        except BaseException:
            with contextlib.suppress(OSError):
                self.fs.delete_file(aside)
            raise

    def delete(self, *parts: str) -> None:
        """Remove a folder or a file; nothing happens if it is not there."""
        info = self.fs.get_file_info(self.path(*parts))
        if info.type == pafs.FileType.Directory:
            self.fs.delete_dir(info.path)
        elif info.is_file:
            self.fs.delete_file(info.path)

    def rename(self, old: str, new: str) -> None:
        """Move a folder or a file; the target must not be there."""
        self.fs.move(self.path(old), self.path(new))


def open_filesystem(url: str) -> tuple[pafs.FileSystem, str]:
    """Filesystem and path of a URL, or of a local path relative to the working folder."""
    for spark_name, arrow_name in _ALIASES.items():
        if url.startswith(spark_name):
            url = arrow_name + url[len(spark_name) :]
    if "://" not in url:
        return pafs.LocalFileSystem(), os.path.abspath(url)
    try:
        fs, path = pafs.FileSystem.from_uri(url)
    except (pa.ArrowInvalid, OSError, ValueError) as why:
        raise UserError(
            f"cannot open {redact_text(url)!r}: {why}; use a local path or an Arrow filesystem "
            "URL (file, s3, gs, hdfs, abfs)"
        ) from None
    return fs, path.rstrip("/")
