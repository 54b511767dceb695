"""Blocks that tasks send to one another: Arrow tables as bytes, one block per part and kind."""

from __future__ import annotations

import itertools

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes
from ulr.engine.interface import Block, Blocks

# Compressed by column before it is moved or written: a third of the bytes.
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")
_MAX_ROWS = 200_000  # keeps a block at some tens of megabytes


def hash_parts(column: pa.ChunkedArray | pa.Array, parts: int) -> np.ndarray:
    """Return the part (int64, from 0) of each string, by its hash."""
    return (hashes(column) % np.uint64(parts)).astype(np.int64)


def partition_blocks(kind: str, table: pa.Table, part: np.ndarray) -> Blocks:
    """Yield the rows of a table as blocks. part: int64, the part of each row."""
    if np.any(part[1:] < part[:-1]):
        order = np.argsort(part, kind="stable")
        table, part = table.take(pa.array(order)), part[order]
    bounds = [*np.flatnonzero(np.diff(part, prepend=-1)), part.size]
    for start, end in itertools.pairwise(bounds):
        for at in range(start, end, _MAX_ROWS):
            rows = table.slice(at, min(_MAX_ROWS, end - at))
            yield int(part[start]), kind, table_bytes(rows)


def table_bytes(table: pa.Table | pa.RecordBatch) -> pa.Buffer:
    """Return a table as bytes for `open_table`."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=_OPTIONS) as writer:
        writer.write(table)
    return sink.getvalue()


def bytes_block(part: int, kind: str, content: bytes) -> Block:
    """Return bytes as a block."""
    return part, kind, pa.py_buffer(content)


def open_table(content: pa.Buffer) -> pa.Table:
    """Return the table of a block; it refers to the block's memory."""
    return pa.ipc.open_stream(content).read_all()
