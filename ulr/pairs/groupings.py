"""The groupings of pairs into lists (docs/methods.md section 2), and dropping of documents."""

from __future__ import annotations

import numpy as np

from ulr.features.window import Window
from ulr.kernels.layout import PairLists, Ragged, WeightedPairs, offsets_of


def by_ranking(window: Window, pairs: WeightedPairs, clicks: np.ndarray) -> PairLists:
    """Return one list per displayed ranking that has a pair. clicks: per document of a list."""
    lists, pair_counts = Ragged(window.histograms.group_docs), np.diff(pairs.offsets)
    paired = pair_counts > 0
    queries = window.query_rows.size - 1
    in_paired = np.repeat(paired, lists.lengths)
    first_row = window.query_rows[np.repeat(window.query, lists.lengths)]
    return PairLists(
        query_rows=window.query_rows,
        query_groups=offsets_of(np.bincount(window.query[paired], minlength=queries)),
        group_docs=offsets_of(lists.lengths[paired]),
        group_pairs=offsets_of(pair_counts[paired]),
        doc_row=(window.row_of - first_row)[in_paired].astype(np.int32),
        position=(lists.within() + 1)[in_paired].astype(np.int32),
        i=pairs.i,
        j=pairs.j,
        u_ij=pairs.u_ij,
        u_ji=pairs.u_ji,
        clicks=clicks[in_paired].astype(np.float32),
    )


def by_query(window: Window, pairs: WeightedPairs, clicks: np.ndarray) -> PairLists:
    """Return one list per query, of all its documents; weights of equal pairs are summed."""
    group = Ragged(pairs.offsets).owner()
    first = window.histograms.group_docs[group]
    i, j = window.row_of[first + pairs.i], window.row_of[first + pairs.j]
    forward = (i < j).reshape(-1, *[1] * (pairs.u_ij.ndim - 1))
    u_ij, u_ji = np.where(forward, (pairs.u_ij, pairs.u_ji), (pairs.u_ji, pairs.u_ij))
    i, j = np.minimum(i, j), np.maximum(i, j)
    order = np.lexsort((j, i))  # rows of a query are consecutive, so this sorts by query too
    i, j, query = i[order], j[order], window.query[group][order]
    new = np.flatnonzero(np.diff(i, prepend=-1) | np.diff(j, prepend=-1))
    first_row = window.query_rows[query[new]]
    queries = window.query_rows.size - 1
    return PairLists(
        query_rows=window.query_rows,
        query_groups=np.arange(queries + 1, dtype=np.int64),
        group_docs=window.query_rows,
        group_pairs=offsets_of(np.bincount(query[new], minlength=queries)),
        doc_row=Ragged(window.query_rows).within().astype(np.int32),
        position=_single_positions(window),
        i=(i[new] - first_row).astype(np.int32),
        j=(j[new] - first_row).astype(np.int32),
        u_ij=_sums(u_ij[order], new),
        u_ji=_sums(u_ji[order], new),
        clicks=np.bincount(window.row_of, clicks, window.feature_row.size).astype(np.float32),
    )


def _single_positions(window: Window) -> np.ndarray:
    """Return the position of each row (int32), or 0 if it was shown at several."""
    position = Ragged(window.histograms.group_docs).within() + 1
    low = np.full(window.feature_row.size, np.iinfo(np.int64).max)
    high = np.zeros(window.feature_row.size, np.int64)
    np.minimum.at(low, window.row_of, position)
    np.maximum.at(high, window.row_of, position)
    return np.where(low == high, low, 0).astype(np.int32)


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Return the sums of values from each start to the next, along the first axis: float32."""
    if values.size == 0:
        return values.astype(np.float32)
    return np.add.reduceat(values.astype(np.float64), starts, axis=0).astype(np.float32)


GROUPINGS = {"ranking": by_ranking, "query": by_query}


def drop_documents(arrays: PairLists, present: np.ndarray) -> PairLists:
    """Return lists and pairs without the rows that are not `present` (bool per row)."""
    if present.all():
        return arrays
    rows, docs, pairs = (
        Ragged(offsets) for offsets in (arrays.query_rows, arrays.group_docs, arrays.group_pairs)
    )
    query_of_doc = Ragged(arrays.query_groups).owner()[docs.owner()]
    row = arrays.query_rows[query_of_doc] + arrays.doc_row
    keep_doc = present[row]
    first = arrays.group_docs[pairs.owner()]
    i, j = first + arrays.i, first + arrays.j
    keep = keep_doc[i] & keep_doc[j]
    # Where the remaining rows and documents begin: old index -> new index.
    new_row, new_doc = offsets_of(present), offsets_of(keep_doc)
    query_rows = rows.select(present).offsets
    return PairLists(
        query_rows=query_rows,
        query_groups=arrays.query_groups,
        group_docs=docs.select(keep_doc).offsets,
        group_pairs=pairs.select(keep).offsets,
        doc_row=(new_row[row] - query_rows[query_of_doc])[keep_doc].astype(np.int32),
        position=arrays.position[keep_doc],
        i=(new_doc[i] - new_doc[first])[keep].astype(np.int32),
        j=(new_doc[j] - new_doc[first])[keep].astype(np.int32),
        u_ij=arrays.u_ij[keep],
        u_ji=arrays.u_ji[keep],
        clicks=arrays.clicks[keep_doc],
    )
