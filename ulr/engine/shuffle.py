"""Arrow tables as rows that Spark can shuffle: one parcel per reducer and kind.

Spark moves opaque bytes, so columns stay columns from the map task to the reducer, and one
exchange carries everything a stage needs to bring together.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

BLOCK = "part int, kind string, content binary"
_parcel_schema = pa.schema(
    [pa.field("part", pa.int32()), pa.field("kind", pa.string()), pa.field("content", pa.binary())]
)
# Compressed here, where the columns are: the JVM and its sockets then move a third of the bytes.
_LIGHT = pa.ipc.IpcWriteOptions(compression="lz4")
MAX_ROWS = 200_000  # keeps a parcel some tens of megabytes


def pack(part: int, kind: str, table: pa.Table) -> Iterator[pa.RecordBatch]:
    """A table as one or more parcels for reducer `part`."""
    for start in range(0, table.num_rows, MAX_ROWS):
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, table.schema, options=_LIGHT) as writer:
            writer.write_table(table.slice(start, MAX_ROWS))
        yield pack_bytes(part, kind, sink.getvalue())


def pack_bytes(part: int, kind: str, content: bytes | pa.Buffer) -> pa.RecordBatch:
    """Bytes as one parcel."""
    data = pa.py_buffer(content)
    offsets = pa.py_buffer(np.array([0, data.size], np.int32))
    binary = pa.Array.from_buffers(pa.binary(), 1, [None, offsets, data])
    arrays = [pa.array([part], pa.int32()), pa.array([kind]), binary]
    return pa.RecordBatch.from_arrays(arrays, schema=_parcel_schema)


def partition_blocks(kind: str, table: pa.Table, part: np.ndarray) -> Iterator[pa.RecordBatch]:
    """A table's rows as parcels for the reducers that `part` (int64, one per row) names."""
    if np.any(part[1:] < part[:-1]):
        order = np.argsort(part, kind="stable")
        table, part = table.take(pa.array(order)), part[order]
    bounds = np.flatnonzero(np.diff(part, prepend=-1))
    for start, end in zip(bounds, [*bounds[1:], part.size], strict=True):
        yield from pack(int(part[start]), kind, table.slice(start, end - start))


def unpack(batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[int, str, pa.Buffer]]:
    """Part, kind and content of every parcel."""
    for batch in batches:
        parts, kinds = batch["part"].to_pylist(), batch["kind"].to_pylist()
        for part, kind, content in zip(parts, kinds, batch["content"], strict=True):
            yield part, kind, content.as_buffer()


def open_table(content: pa.Buffer) -> pa.Table:
    """The table in a parcel; it refers to the parcel's memory."""
    return pa.ipc.open_stream(content).read_all()
