"""Pair tables as arrays: feature matrix, golden labels and pair lists."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.engine.columns import whole
from ulr.errors import UserError
from ulr.kernels.layout import PairLists, offsets_of, take_queries
from ulr.warehouse.schema import pairs_schema

_INT32 = ("doc_rows", "positions", "pair_i", "pair_j")


@dataclass(frozen=True)
class RankingData:
    """query_ids: strings; features: float32, rows x width; labels: int32, -1 unknown."""

    query_ids: pa.Array
    features: np.ndarray
    labels: np.ndarray
    pairs: PairLists


def read_pairs(tables: Iterable[pa.Table | pa.RecordBatch]) -> RankingData:
    """Return the rows of pairs tables, in order. A single batch is not copied."""
    batches = [
        batch
        for table in tables
        for batch in (table.to_batches() if isinstance(table, pa.Table) else [table])
        if batch.num_rows
    ]
    if not batches:
        raise UserError("the pairs table is empty: no query has a pair; see the counts of `pairs`")
    table = pa.Table.from_batches(batches, schema=pairs_schema)
    columns = {name: _flat(table, name) for name in pairs_schema.names[1:]}
    rows = columns["doc_ids"][0]
    width = _width(columns["features"][0], rows)
    values = {name: columns[name][1].to_numpy(zero_copy_only=False) for name in _INT32}
    pairs = PairLists(
        query_rows=rows,
        query_groups=columns["group_sizes"][0],
        group_docs=offsets_of(columns["group_sizes"][1].to_numpy()),
        group_pairs=offsets_of(columns["pair_counts"][1].to_numpy()),
        doc_row=values["doc_rows"],
        position=values["positions"],
        i=values["pair_i"],
        j=values["pair_j"],
        u_ij=columns["u_ij"][1].to_numpy(zero_copy_only=False),
        u_ji=columns["u_ji"][1].to_numpy(zero_copy_only=False),
    )
    matrix = columns["features"][1].to_numpy(zero_copy_only=False).reshape(-1, width)
    labels = columns["labels"][1].fill_null(-1).to_numpy(zero_copy_only=False)
    return RankingData(whole(table["query_id"]), matrix, labels, pairs)


def split_queries(data: RankingData, chosen: np.ndarray) -> RankingData:
    """Return the chosen queries (bool per query) with their rows, groups and pairs."""
    in_row = np.repeat(chosen, np.diff(data.pairs.query_rows))
    names = data.query_ids.filter(pa.array(chosen))
    pairs = take_queries(data.pairs, chosen)
    return RankingData(names, data.features[in_row], data.labels[in_row], pairs)


def _flat(table: pa.Table, name: str) -> tuple[np.ndarray, pa.Array]:
    """Return offsets (int64, from 0) and elements of a list column."""
    column = whole(table[name])
    offsets = np.asarray(column.offsets, np.int64)
    return offsets - offsets[0], column.flatten()


def _width(feature_offsets: np.ndarray, row_offsets: np.ndarray) -> int:
    width = int(feature_offsets[-1] // max(row_offsets[-1], 1))
    if (feature_offsets != row_offsets * width).any():
        raise UserError(
            "queries of the pairs table have feature rows of different lengths; "
            "features must have one length for all"
        )
    return width
