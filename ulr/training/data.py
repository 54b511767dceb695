"""Pair tables as arrays: feature matrix, golden labels and pair lists."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.engine.columns import offsets_and_values, whole
from ulr.errors import InvalidData
from ulr.features.matrix import check_width
from ulr.kernels.layout import PairLists, offsets_of, take_queries

# The columns of the pairs table that training reads besides weights.
COLUMNS = ("query_id", "labels", "features", "group_sizes", "doc_rows", "positions", "pair_counts",
           "pair_i", "pair_j", "clicks")  # fmt: skip
WEIGHTS = ("u_ij", "u_ji")


@dataclass(frozen=True)
class RankingData:
    """query_ids: strings; features: float32, rows x width; labels: int32, -1 unknown."""

    query_ids: pa.Array
    features: np.ndarray
    labels: np.ndarray
    pairs: PairLists


def read_pairs(
    tables: Iterable[pa.Table], weights: Sequence[tuple[str, str]] = (WEIGHTS,)
) -> RankingData:
    """Return the rows of pairs tables, in order. A table of one chunk is not copied.

    tables: with COLUMNS and `weights`, the two columns of each weighting.
    """
    parts = [table for table in tables if table.num_rows]
    if not parts:
        raise InvalidData(
            "the pairs table is empty, no query has a pair; run `ulr pairs` to see why"
        )
    table = pa.concat_tables(parts).combine_chunks()
    pairs = PairLists(
        query_rows=_offsets(table, "labels"),
        query_groups=_offsets(table, "group_sizes"),
        group_docs=offsets_of(_values(table, "group_sizes")),
        group_pairs=offsets_of(_values(table, "pair_counts")),
        doc_row=_values(table, "doc_rows"),
        position=_values(table, "positions"),
        i=_values(table, "pair_i"),
        j=_values(table, "pair_j"),
        u_ij=_weights(table, [ij for ij, _ in weights]),
        u_ji=_weights(table, [ji for _, ji in weights]),
        clicks=_values(table, "clicks"),
    )
    features = _values(table, "features").reshape(-1, feature_width(table))
    labels = offsets_and_values(table["labels"])[1].fill_null(-1)
    return RankingData(
        whole(table["query_id"]), features, labels.to_numpy(zero_copy_only=False), pairs
    )


def feature_width(table: pa.Table, width: int | None = None) -> int:
    """Return the features per document of a pairs table; raise if they differ, or from `width`."""
    return check_width(
        np.diff(_offsets(table, "features")),
        rows=np.diff(_offsets(table, "labels")),
        width=width,
        name=lambda i: f"query {table['query_id'][i]}",
    )


def split_queries(data: RankingData, chosen: np.ndarray) -> RankingData:
    """Return the chosen queries (bool per query) with their rows, groups and pairs."""
    in_row = np.repeat(chosen, np.diff(data.pairs.query_rows))
    names = data.query_ids.filter(pa.array(chosen))
    pairs = take_queries(data.pairs, chosen)
    return RankingData(names, data.features[in_row], data.labels[in_row], pairs)


def _offsets(table: pa.Table, name: str) -> np.ndarray:
    return offsets_and_values(table[name])[0]


def _weights(table: pa.Table, names: Sequence[str]) -> np.ndarray:
    """Return float32 per pair, or pairs x weightings if there are several."""
    columns = [_values(table, name) for name in names]
    return columns[0] if len(columns) == 1 else np.stack(columns, axis=1)


def _values(table: pa.Table, name: str) -> np.ndarray:
    return offsets_and_values(table[name])[1].to_numpy(zero_copy_only=False)
