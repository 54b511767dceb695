"""Shuffle blocks: Arrow tables as rows that Spark can shuffle, one block per reducer and kind.

A row holds opaque bytes, so columns stay columns from the map task to the reducer, and one exchange
carries all tables that a stage brings together.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes

BLOCK = "part int, kind string, content binary"
_block_schema = pa.schema(
    [pa.field("part", pa.int32()), pa.field("kind", pa.string()), pa.field("content", pa.binary())]
)
# Compressed by column before the JVM and its sockets move it: a third of the bytes.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_MAX_ROWS = 200_000  # keeps a block at some tens of megabytes


def hash_parts(column: pa.ChunkedArray | pa.Array, parts: int) -> np.ndarray:
    """Return the part (int64, from 0) of each string, by its hash."""
    return (hashes(column) % np.uint64(parts)).astype(np.int64)


def partition_blocks(kind: str, table: pa.Table, part: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a table as blocks. part: int64, the reducer of each row."""
    if np.any(part[1:] < part[:-1]):
        order = np.argsort(part, kind="stable")
        table, part = table.take(pa.array(order)), part[order]
    bounds = [*np.flatnonzero(np.diff(part, prepend=-1)), part.size]
    for start, end in itertools.pairwise(bounds):
        for at in range(start, end, _MAX_ROWS):
            rows = table.slice(at, min(_MAX_ROWS, end - at))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
                writer.write_table(rows)
            yield pack_bytes(int(part[start]), kind, sink.getvalue())


def pack_bytes(part: int, kind: str, content: bytes | pa.Buffer) -> pa.RecordBatch:
    """Return bytes as one block."""
    data = pa.py_buffer(content)
    offsets = pa.py_buffer(np.array([0, data.size], np.int32))
    binary = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    arrays = [pa.array([part], pa.int32()), pa.array([kind]), binary]
    return pa.RecordBatch.from_arrays(arrays, schema=_block_schema)


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str, pa.Buffer]]:
    """Yield part, kind and content of every block."""
    for batch in batches:
        parts, kinds = batch["part"].to_pylist(), batch["kind"].to_pylist()
        for part, kind, content in zip(parts, kinds, batch["content"], strict=True):
            yield part, kind, content.as_buffer()


def open_table(content: pa.Buffer) -> pa.Table:
    """Return the table of a block; it refers to the block's memory."""
    return pa.ipc.open_stream(content).read_all()
