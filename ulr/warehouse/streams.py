"""Output of a file: bytes that are hashed on the way, and tables cut into row groups."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Written:
    """Size and SHA-256 of a file that was written."""

    size: int
    sha256: str


class HashingFile:
    """A file object, as pyarrow calls it, that counts and hashes the bytes it passes on."""

    closed = False

    def __init__(self, stream: pa.NativeFile) -> None:
        self._stream, self._hash, self._size = stream, hashlib.sha256(), 0

    def write(self, content: bytes) -> int:
        self._hash.update(content)
        self._size += len(content)
        self._stream.write(content)
        return len(content)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        self._stream.flush()

    def close(self) -> None:
        """Leave the stream open: its owner closes it."""

    def written(self) -> Written:
        return Written(self._size, self._hash.hexdigest())


def row_groups(tables: Iterable[pa.Table], schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
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
