"""Lists of shown documents, one row a document, to rows of the pairs table. Arrow and numpy only.

A list is all rows of one id, in displayed order. Its pairs are those with different labels; the
weight of "i above j" is that of row i, such as 1 / theta of where i was clicked.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import list_array, lists, whole
from ulr.errors import UserError
from ulr.warehouse.schema import pairs_schema

# One shown document, sorted by (list_id, position): how `build_lists` wants them.
shown_schema = pa.schema(
    [
        pa.field("list_id", pa.string(), nullable=False),
        pa.field("position", pa.int32(), nullable=False),
        pa.field("label", pa.float64(), nullable=False),
        pa.field("weight", pa.float64(), nullable=False),
        pa.field("features", pa.list_(pa.float32()), nullable=False),
    ]
)
HOLD_ROWS = 100_000
PARAMS = {"list_id": "qidCol", "position": "positionCol", "label": "labelCol",
          "weight": "weightCol", "features": "featuresCol"}  # fmt: skip


def whole_lists(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The same rows, cut where a list ends."""
    held: list[pa.Table] = []
    for batch in batches:
        _check_values(batch)
        held.append(pa.Table.from_batches([batch]).cast(shown_schema))
        if sum(t.num_rows for t in held) >= HOLD_ROWS:
            table = pa.concat_tables(held).combine_chunks()
            ends = list_starts(table["list_id"])
            if ends.size > 1:
                yield table.slice(0, int(ends[-1]))
            held = [table.slice(int(ends[-1]))]
    if held:
        yield pa.concat_tables(held).combine_chunks()


def _check_values(batch: pa.RecordBatch) -> None:
    """Every row has a value in every column, and the numbers are numbers."""
    for name, param in PARAMS.items():
        column = batch[name]
        odd = column.null_count
        if not odd and name in ("label", "weight"):
            odd = len(column) - (pc.sum(pc.is_finite(column)).as_py() or 0)
        if odd:
            raise UserError(
                f"{param} has {odd:,} values in a batch of {len(column):,} rows that are null or "
                "no number; fill them in or drop those rows before fit"
            )


def list_starts(names: pa.ChunkedArray) -> np.ndarray:
    """Where a new list begins, the first included."""
    codes = whole(names).dictionary_encode().indices.to_numpy()
    return np.flatnonzero(np.diff(codes, prepend=-1))


def build_lists(table: pa.Table) -> pa.Table:
    """One row of the pairs table for every list that has a pair."""
    if not table.num_rows:
        return pairs_schema.empty_table()
    starts = list_starts(table["list_id"])
    sizes = np.diff(starts, append=table.num_rows)
    names = whole(table["list_id"]).take(pa.array(starts))
    if len(names.unique()) != len(names):
        raise UserError("the rows of a list are not together; sort by list before building pairs")
    if (lowest := pc.min(table["position"]).as_py()) < 1:
        raise UserError(f"positionCol holds {lowest}; positions begin at 1, the top of the page")
    label, weight = table["label"].to_numpy(), table["weight"].to_numpy()
    i, j, owner = _all_pairs(starts, sizes)
    a, b = starts[owner] + i, starts[owner] + j
    u_ij = np.where(label[a] > label[b], weight[a], 0.0)
    u_ji = np.where(label[b] > label[a], weight[b], 0.0)
    kept = (u_ij != 0) | (u_ji != 0)
    counts = np.bincount(owner[kept], minlength=sizes.size)
    place = np.arange(table.num_rows) - np.repeat(starts, sizes)
    one = np.ones(sizes.size, np.int64)
    columns = {
        "query_id": names,
        "doc_ids": list_array(sizes, pa.array(place + 1).cast(pa.string())),
        "labels": list_array(sizes, pa.array(np.rint(label).astype(np.int32))),
        "features": _features(table, starts, sizes),
        "group_sizes": list_array(one, pa.array(sizes.astype(np.int32))),
        "doc_rows": list_array(sizes, pa.array(place.astype(np.int32))),
        "positions": list_array(sizes, table["position"].combine_chunks()),
        "pair_counts": list_array(one, pa.array(counts.astype(np.int32))),
        "pair_i": list_array(counts, pa.array(i[kept].astype(np.int32))),
        "pair_j": list_array(counts, pa.array(j[kept].astype(np.int32))),
        "u_ij": list_array(counts, pa.array(u_ij[kept].astype(np.float32))),
        "u_ji": list_array(counts, pa.array(u_ji[kept].astype(np.float32))),
    }
    made = pa.table([columns[f.name] for f in pairs_schema], schema=pairs_schema)
    return made.filter(pa.array(counts > 0))


def _all_pairs(starts: np.ndarray, sizes: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Places i < j of every pair of every list, sorted, and the list they are of."""
    owner = np.repeat(np.arange(sizes.size), sizes)
    place = np.arange(owner.size) - starts[owner]
    after = sizes[owner] - 1 - place
    i, of = np.repeat(place, after), np.repeat(owner, after)
    first = np.repeat(np.cumsum(after) - after, after)
    return i, i + 1 + np.arange(i.size) - first, of


def _features(table: pa.Table, starts: np.ndarray, sizes: np.ndarray) -> pa.ListArray:
    """All features of a list in one row."""
    column = lists(table["features"])
    if (column.lengths != column.lengths[0]).any():
        raise UserError(
            "feature rows have different lengths; features must have one length for all"
        )
    values = whole(table["features"]).flatten()
    return list_array(sizes * column.lengths[0], values)
