"""Convert rows of shown documents to rows of the table `pairs`, with Arrow and numpy only.

A list consists of all rows with one list_id, in displayed order. Only documents with different
labels form a pair. The weight of "i above j" is the weight of row i, such as 1 / theta at the
position of its click.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import list_array, lists, whole
from ulr.errors import InvalidData, UserError
from ulr.features.matrix import check_width
from ulr.kernels.layout import Ragged
from ulr.warehouse.schema import pairs_schema

# One row per shown document, sorted by (list_id, position).
shown_schema = pa.schema(
    [
        pa.field("list_id", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("label", pa.float64(), nullable=False),
        pa.field("weight", pa.float64(), nullable=False),
        pa.field("features", pa.list_(pa.float32()), nullable=False),
    ]
)
BUFFER_ROWS = 100_000
_PARAMS = {"list_id": "qidCol", "position": "positionCol", "label": "labelCol",
           "weight": "weightCol", "features": "featuresCol", "query_id": "queryCol",
           "doc_id": "docCol", "prediction": "predictionCol"}  # fmt: skip


def split_at_lists(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows, with `shown_schema`, in tables that contain whole lists only."""
    checked = (check_values(batch, shown_schema.names) for batch in batches)
    return chunks_at(checked, shown_schema, ("list_id",))


def chunks_at(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema, names: tuple[str, ...]
) -> Iterator[pa.Table]:
    """Yield the rows in tables that contain whole lists only. names: columns that identify one."""
    buffer: list[pa.Table] = []
    for batch in batches:
        buffer.append(_conform(batch, schema))
        if sum(t.num_rows for t in buffer) >= BUFFER_ROWS:
            table = pa.concat_tables(buffer).combine_chunks()
            last_start = int(list_starts(table, names)[-1])
            if last_start:
                yield table.slice(0, last_start)
            buffer = [table.slice(last_start)]
    if buffer and sum(t.num_rows for t in buffer):
        yield pa.concat_tables(buffer).combine_chunks()


def build_lists(table: pa.Table) -> pa.Table:
    """Return one row of the table pairs for every list that has a pair."""
    if not table.num_rows:
        return pairs_schema.empty_table()
    starts = list_starts(table, ["list_id"])
    rows = Ragged(np.append(starts, table.num_rows))
    sizes, index = rows.lengths, rows.within()
    ids = whole(table["list_id"]).take(pa.array(starts))
    if len(ids.unique()) != len(ids):
        raise UserError("the rows of a list are not contiguous; sort the rows by list first")
    if (lowest := pc.min(table["position"]).as_py()) < 1:
        raise InvalidData(f"positionCol contains {lowest}; positions begin at 1, the top")
    width = check_width(lists(table["features"]).lengths)
    label, weight = table["label"].to_numpy(), table["weight"].to_numpy()
    i, j, owner = _all_pairs(rows)
    a, b = starts[owner] + i, starts[owner] + j
    u_ij = np.where(label[a] > label[b], weight[a], 0.0)
    u_ji = np.where(label[b] > label[a], weight[b], 0.0)
    kept = (u_ij != 0) | (u_ji != 0)
    counts = np.bincount(owner[kept], minlength=sizes.size)
    ones = np.ones(sizes.size, np.int64)
    columns = {
        "query_id": ids,
        "doc_ids": list_array(sizes, pa.array(index + 1).cast(pa.string())),
        "labels": list_array(sizes, np.rint(label).astype(np.int32)),
        "features": list_array(sizes * width, whole(table["features"]).flatten()),
        "group_sizes": list_array(ones, sizes.astype(np.int32)),
        "doc_rows": list_array(sizes, index.astype(np.int32)),
        "positions": list_array(sizes, table["position"].combine_chunks()),
        "pair_counts": list_array(ones, counts.astype(np.int32)),
        "pair_i": list_array(counts, i[kept].astype(np.int32)),
        "pair_j": list_array(counts, j[kept].astype(np.int32)),
        "u_ij": list_array(counts, u_ij[kept].astype(np.float32)),
        "u_ji": list_array(counts, u_ji[kept].astype(np.float32)),
        "clicks": list_array(sizes, (label > 0).astype(np.float32)),
    }
    pairs = pa.table([columns[f.name] for f in pairs_schema], schema=pairs_schema)
    return pairs.filter(pa.array(counts > 0))


def check_values(batch: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return the batch; raise InvalidData if one of the columns has no value in a row."""
    for name in names:
        column = batch[name]
        invalid = column.null_count
        if not invalid and name in ("label", "weight"):
            invalid = len(column) - (pc.sum(pc.is_finite(column)).as_py() or 0)
        if invalid:
            raise InvalidData(
                f"{_PARAMS[name]} has {invalid:,} null or non-finite values in a batch of "
                f"{len(column):,} rows; replace them or drop those rows before fit"
            )
    return batch


def list_starts(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Return the first row of every list, int64. names: of the columns that identify it."""
    change = np.zeros(table.num_rows, bool)
    for name in names:
        codes = whole(table[name]).dictionary_encode().indices.to_numpy()
        change |= np.diff(codes, prepend=-1) != 0
    return np.flatnonzero(change)


def _conform(batch: pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    """Return the columns of the schema; a null among the features of a row is NaN."""
    columns = {name: batch[name] for name in schema.names}
    if "features" in columns:
        features = columns["features"]
        offsets = pc.subtract(features.offsets, features.offsets[0])
        values = pc.fill_null(features.flatten().cast(pa.float32()), np.float32("nan"))
        columns["features"] = pa.ListArray.from_arrays(offsets, values)
    return pa.table(columns).cast(schema)


def _all_pairs(rows: Ragged) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the indices i < j within its list of every pair, sorted, and the index of the list."""
    owner, index = rows.owner(), rows.within()
    after = Ragged.from_lengths(rows.lengths[owner] - 1 - index)
    i = index[after.owner()]
    return i, i + 1 + after.within(), owner[after.owner()]
