"""The pairs of a list as runs: one document, and consecutive documents that it has pairs with.

A clicked document has a pair with every other document of its list. With the documents in ascending
order of their number of pairs, its partners are all documents before it: one run. Documents of one
label have the same partners, so pairs of labels become such runs, too. Kernels read a run eight
pairs at a time. The order is computed once and serves every iteration of training.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.lanes import LANES
from ulr.kernels.layout import PairLists


class PairRuns(NamedTuple):
    """Pair lists with their pairs in runs. A slot is a document's place in the new order.

    query_rows    int64, Q + 1  rows of each query
    query_groups  int64, Q + 1  groups of each query
    group_docs    int64, G + 1  documents of each group
    group_paired  int32, G      documents of each group that have pairs; they have the first slots
    group_runs    int64, G + 1  runs of each group
    doc_row       int32         row of the document in each slot, counted from its query's first
    doc_index     int32         index of the document in its list; it decides between equal scores
    document      int32, R      slot of the one document of a run
    partner       int32, R      slot of the first of its consecutive partners
    run_pairs     int64, R + 1  pairs of each run
    u_ij, u_ji    float32       weight of "the document above the partner", and of the reverse; 0 if
                                the pair only fills a gap

    Eight more elements follow the last document and the last pair, since kernels read eight.
    """

    query_rows: np.ndarray
    query_groups: np.ndarray
    group_docs: np.ndarray
    group_paired: np.ndarray
    group_runs: np.ndarray
    doc_row: np.ndarray
    doc_index: np.ndarray
    document: np.ndarray
    partner: np.ndarray
    run_pairs: np.ndarray
    u_ij: np.ndarray
    u_ji: np.ndarray

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.query_rows.size - 1

    @property
    def rows(self) -> int:
        """Number of distinct (query, document)."""
        return int(self.query_rows[-1])


@kernel(allocates=False)
def _assign_slots(pairs: PairLists, group: int, counts: np.ndarray, slot: np.ndarray) -> int:
    """Fill the slot of each document of a group; return the number of documents with pairs.

    A counting sort: ascending number of pairs, then as in the list; documents without pairs last.
    """
    n = pairs.group_docs[group + 1] - pairs.group_docs[group]
    degree, starts = counts[0], counts[1]
    degree[:n] = 0
    starts[: n + 1] = 0
    for p in range(pairs.group_pairs[group], pairs.group_pairs[group + 1]):
        degree[pairs.i[p]] += 1
        degree[pairs.j[p]] += 1
    for d in range(n):
        starts[degree[d]] += 1
    paired, at = n - starts[0], 0
    for k in range(1, n):
        at, starts[k] = at + starts[k], at
    starts[0] = paired
    for d in range(n):
        slot[d] = starts[degree[d]]
        starts[degree[d]] += 1
    return int(paired)


@kernel(allocates=False)
def _sort_pairs(
    pairs: PairLists, group: int, slot: np.ndarray, starts: np.ndarray, order: np.ndarray
) -> None:
    """Fill order[1] with the group's pairs, counted from its first, by (higher, lower) slot."""
    lo, hi = pairs.group_pairs[group], pairs.group_pairs[group + 1]
    n = pairs.group_docs[group + 1] - pairs.group_docs[group]
    for by_higher in range(2):  # two counting sorts; the second keeps the order of the first
        starts[: n + 1] = 0
        for p in range(lo, hi):
            a, b = slot[pairs.i[p]], slot[pairs.j[p]]
            starts[(max(a, b) if by_higher else min(a, b)) + 1] += 1
        for k in range(n):
            starts[k + 1] += starts[k]
        for at in range(hi - lo):
            p = order[0, at] if by_higher else at
            a, b = slot[pairs.i[lo + p]], slot[pairs.j[lo + p]]
            key = max(a, b) if by_higher else min(a, b)
            order[by_higher, starts[key]] = p
            starts[key] += 1


@kernel(allocates=False)
def _lay_out(
    pairs: PairLists, runs: PairRuns, counts: np.ndarray, slot: np.ndarray, order: np.ndarray
) -> tuple[int, int]:
    """Fill the arrays of `runs`; return the number of runs and of pairs with those in gaps.

    counts (int64, 2 x (longest list + 1)), slot (int32, longest list) and order (int64, 2 x most
    pairs of a list) are work space.
    """
    group_docs, group_pairs = pairs.group_docs, pairs.group_pairs
    run = used = 0
    for group in range(group_docs.size - 1):
        lo, docs = group_pairs[group], group_docs[group]
        runs.group_paired[group] = _assign_slots(pairs, group, counts, slot)
        for d in range(group_docs[group + 1] - docs):
            runs.doc_row[docs + slot[d]] = pairs.doc_row[docs + d]
            runs.doc_index[docs + slot[d]] = d
        _sort_pairs(pairs, group, slot, counts[0], order)
        document = partner = np.int32(-1)
        for at in range(group_pairs[group + 1] - lo):
            p = lo + order[1, at]
            x, y = slot[pairs.i[p]], slot[pairs.j[p]]
            a, b = max(x, y), min(x, y)
            gap = b - partner - 1
            # The weights have room for as many gaps as pairs: more than that starts a new run.
            if a != document or gap >= LANES or used + gap > 2 * (lo + at) + 1:
                runs.document[run], runs.partner[run], runs.run_pairs[run] = a, b, used
                run += 1
            else:
                for _ in range(gap):
                    runs.u_ij[used] = runs.u_ji[used] = 0.0
                    used += 1
            runs.u_ij[used] = pairs.u_ij[p] if a == x else pairs.u_ji[p]
            runs.u_ji[used] = pairs.u_ji[p] if a == x else pairs.u_ij[p]
            used += 1
            document, partner = a, b
        runs.group_runs[group + 1] = run
    return run, used


def pair_runs(pairs: PairLists) -> PairRuns:
    """Return the lists with their pairs in runs."""
    groups, docs, size = pairs.group_docs.size - 1, pairs.doc_row.size + LANES, pairs.pairs
    group_runs = np.zeros(groups + 1, np.int64)
    # The pages of an array that are never written take no memory.
    runs = PairRuns(
        pairs.query_rows, pairs.query_groups, pairs.group_docs,
        np.zeros(groups, np.int32), group_runs,
        np.zeros(docs, np.int32), np.zeros(docs, np.int32),
        np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size + 1, np.int64),
        *(np.empty(2 * size + LANES, np.float32) for _ in range(2)),
    )  # fmt: skip
    longest = int(np.diff(pairs.group_docs).max(initial=0))
    run, used = _lay_out(
        pairs, runs, np.empty((2, longest + 1), np.int64), np.empty(longest, np.int32),
        np.empty((2, int(np.diff(pairs.group_pairs).max(initial=0))), np.int64),
    )  # fmt: skip
    runs.run_pairs[run] = used
    for weights in (runs.u_ij, runs.u_ji):
        weights[used : used + LANES] = 0.0
    return runs._replace(
        document=runs.document[:run], partner=runs.partner[:run],
        run_pairs=runs.run_pairs[: run + 1],
        u_ij=runs.u_ij[: used + LANES], u_ji=runs.u_ji[: used + LANES],
    )  # fmt: skip
