"""The groupings of pairs into lists (docs/methods.md section 2), and dropping of documents."""

from __future__ import annotations

import numpy as np

from ulr.features.join import Rows, ShownGroups
from ulr.kernels.layout import PairLists, offsets_of
from ulr.pairs.weighting import WeightedPairs


def by_ranking(shown: ShownGroups, rows: Rows, pairs: WeightedPairs) -> PairLists:
    """Return one list per displayed ranking that has a pair."""
    sizes, counts = shown.histograms.sizes, np.diff(pairs.offsets)
    kept = counts > 0
    of_doc = np.repeat(kept, sizes)
    group_of_doc = np.repeat(np.arange(sizes.size), sizes)
    place = np.arange(of_doc.size) - shown.histograms.group_docs[group_of_doc]
    relative = rows.row_of - rows.query_rows[shown.query[group_of_doc]]
    return PairLists(
        query_rows=rows.query_rows,
        query_groups=offsets_of(np.bincount(shown.query[kept], minlength=rows.query_rows.size - 1)),
        group_docs=offsets_of(sizes[kept]),
        group_pairs=offsets_of(counts[kept]),
        doc_row=relative[of_doc].astype(np.int32),
        position=(place + 1)[of_doc].astype(np.int32),
        i=pairs.i,
        j=pairs.j,
        u_ij=pairs.u_ij,
        u_ji=pairs.u_ji,
    )


def by_query(shown: ShownGroups, rows: Rows, pairs: WeightedPairs) -> PairLists:
    """Return one list per query, of all its documents; weights of equal pairs are summed."""
    group = np.repeat(np.arange(shown.query.size), np.diff(pairs.offsets))
    first = shown.histograms.group_docs[group]
    i, j = rows.row_of[first + pairs.i], rows.row_of[first + pairs.j]
    up, down = np.where(i < j, pairs.u_ij, pairs.u_ji), np.where(i < j, pairs.u_ji, pairs.u_ij)
    i, j = np.minimum(i, j), np.maximum(i, j)
    order = np.lexsort((j, i))  # stable, and rows of a query are consecutive: so by query too
    i, j, up, down = i[order], j[order], up[order], down[order]
    new = np.flatnonzero(np.diff(i, prepend=-1) | np.diff(j, prepend=-1))
    start = rows.query_rows[shown.query[group]][order][new]
    counts = np.bincount(shown.query[group][order][new], minlength=rows.query_rows.size - 1)
    sizes = np.diff(rows.query_rows)
    place = np.arange(rows.query_rows[-1]) - np.repeat(rows.query_rows[:-1], sizes)
    return PairLists(
        query_rows=rows.query_rows,
        query_groups=np.arange(rows.query_rows.size, dtype=np.int64),
        group_docs=rows.query_rows,
        group_pairs=offsets_of(counts),
        doc_row=place.astype(np.int32),
        position=_only_positions(shown, rows),
        i=(i[new] - start).astype(np.int32),
        j=(j[new] - start).astype(np.int32),
        u_ij=_sums(up, new),
        u_ji=_sums(down, new),
    )


def drop_documents(arrays: PairLists, present: np.ndarray) -> PairLists:
    """Return lists and pairs without the rows that are not `present` (bool per row)."""
    if present.all():
        return arrays
    groups = np.arange(arrays.group_docs.size - 1)
    query_of_group = np.repeat(np.arange(arrays.queries), np.diff(arrays.query_groups))
    group_of_doc = np.repeat(groups, np.diff(arrays.group_docs))
    row = arrays.query_rows[query_of_group[group_of_doc]] + arrays.doc_row
    keep_doc = present[row]
    row_at, doc_at = offsets_of(present), offsets_of(keep_doc)
    group_of_pair = np.repeat(groups, np.diff(arrays.group_pairs))
    first = arrays.group_docs[group_of_pair]
    keep = keep_doc[first + arrays.i] & keep_doc[first + arrays.j]
    shift = doc_at[first]
    query_rows = row_at[arrays.query_rows]
    moved = row_at[row] - query_rows[query_of_group[group_of_doc]]
    return PairLists(
        query_rows=query_rows,
        query_groups=arrays.query_groups,
        group_docs=doc_at[arrays.group_docs],
        group_pairs=offsets_of(keep)[arrays.group_pairs],
        doc_row=moved[keep_doc].astype(np.int32),
        position=arrays.position[keep_doc],
        i=(doc_at[first + arrays.i] - shift)[keep].astype(np.int32),
        j=(doc_at[first + arrays.j] - shift)[keep].astype(np.int32),
        u_ij=arrays.u_ij[keep],
        u_ji=arrays.u_ji[keep],
    )


def _only_positions(shown: ShownGroups, rows: Rows) -> np.ndarray:
    """Return the position of each row, or 0 if it was shown at several."""
    sizes = shown.histograms.sizes
    place = np.arange(rows.row_of.size) - np.repeat(shown.histograms.group_docs[:-1], sizes) + 1
    low = np.full(rows.feature_row.size, np.iinfo(np.int64).max)
    high = np.zeros(rows.feature_row.size, np.int64)
    np.minimum.at(low, rows.row_of, place)
    np.maximum.at(high, rows.row_of, place)
    return np.where(low == high, low, 0).astype(np.int32)


def _sums(values: np.ndarray, starts: np.ndarray) -> np.ndarray:
    if values.size == 0:
        return np.zeros(0, np.float32)
    return np.add.reduceat(values.astype(np.float64), starts).astype(np.float32)


GROUPINGS = {"ranking": by_ranking, "query": by_query}
