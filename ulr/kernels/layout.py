"""Queries, their rankings and their weighted pairs as flat arrays: what every kernel reads.

A query owns rows (its distinct documents). It has one or more groups; a group is a list of
documents, each a row of the query, and unordered pairs of places in that list. So a document
shown in ten rankings is one row to the learner, and its gradient is the sum over the ten.
Everything within a query is relative, so two tables concatenate by adding offsets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

import numpy as np


@dataclass(frozen=True)
class PairLists:
    """Offsets are int64 and start at 0; the rest is as long as the last of its offsets.

    query_rows    Q + 1   rows of each query
    query_groups  Q + 1   groups of each query
    group_docs    G + 1   documents of each group
    group_pairs   G + 1   pairs of each group, sorted by (i, j)
    doc_row       int32   row of a document, counted from its query's first
    position      int32   where it was shown, from 1; 0 where it was shown at several
    i, j          int32   the two documents of a pair, counted from their group's first; i < j
    u_ij, u_ji    float32 weight of "i should be above j", and of the reverse
    """

    query_rows: np.ndarray
    query_groups: np.ndarray
    group_docs: np.ndarray
    group_pairs: np.ndarray
    doc_row: np.ndarray
    position: np.ndarray
    i: np.ndarray
    j: np.ndarray
    u_ij: np.ndarray
    u_ji: np.ndarray

    @property
    def queries(self) -> int:
        """How many queries."""
        return self.query_rows.size - 1

    @property
    def rows(self) -> int:
        """How many distinct (query, document)."""
        return int(self.query_rows[-1])

    @property
    def pairs(self) -> int:
        """How many pairs, over all groups."""
        return self.i.size

    def with_weights(self, u_ij: np.ndarray, u_ji: np.ndarray) -> PairLists:
        """The same pairs under other weights."""
        return replace(self, u_ij=u_ij, u_ji=u_ji)


OFFSETS = ("query_rows", "query_groups", "group_docs", "group_pairs")


def concat_pairs(parts: Sequence[PairLists]) -> PairLists:
    """One table after the other."""
    columns = {}
    for field in fields(PairLists):
        arrays = [getattr(part, field.name) for part in parts]
        join = _concat_offsets if field.name in OFFSETS else np.concatenate
        columns[field.name] = join(arrays)
    return PairLists(**columns)


def take_queries(pairs: PairLists, chosen: np.ndarray) -> PairLists:
    """The chosen queries (bool per query) with their rows, groups and pairs."""
    if chosen.all():
        return pairs
    in_group = np.repeat(chosen, np.diff(pairs.query_groups))
    in_doc = np.repeat(in_group, np.diff(pairs.group_docs))
    in_pair = np.repeat(in_group, np.diff(pairs.group_pairs))
    return PairLists(
        query_rows=offsets_of(np.diff(pairs.query_rows)[chosen]),
        query_groups=offsets_of(np.diff(pairs.query_groups)[chosen]),
        group_docs=offsets_of(np.diff(pairs.group_docs)[in_group]),
        group_pairs=offsets_of(np.diff(pairs.group_pairs)[in_group]),
        doc_row=pairs.doc_row[in_doc],
        position=pairs.position[in_doc],
        i=pairs.i[in_pair],
        j=pairs.j[in_pair],
        u_ij=pairs.u_ij[in_pair],
        u_ji=pairs.u_ji[in_pair],
    )


def offsets_of(counts: np.ndarray) -> np.ndarray:
    """Where each of some lists of these lengths begins, and the end: int64, from 0."""
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def lists_of(sizes: np.ndarray, pairs: np.ndarray) -> PairLists:
    """Skeleton of one group per query with the given numbers of documents and pairs; the pairs
    themselves are empty, positions are places in the list."""
    offsets = offsets_of(sizes)
    place = np.arange(offsets[-1], dtype=np.int64) - np.repeat(offsets[:-1], sizes)
    pair_offsets = offsets_of(pairs)
    count = int(pair_offsets[-1])
    return PairLists(
        query_rows=offsets,
        query_groups=np.arange(sizes.size + 1, dtype=np.int64),
        group_docs=offsets,
        group_pairs=pair_offsets,
        doc_row=place.astype(np.int32),
        position=(place + 1).astype(np.int32),
        i=np.zeros(count, np.int32),
        j=np.zeros(count, np.int32),
        u_ij=np.zeros(count, np.float32),
        u_ji=np.zeros(count, np.float32),
    )


def _concat_offsets(arrays: Sequence[np.ndarray]) -> np.ndarray:
    ends = np.cumsum([0] + [int(a[-1]) for a in arrays])
    moved = [a[1:] + end for a, end in zip(arrays, ends[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *moved]).astype(np.int64)


@dataclass(frozen=True)
class Histograms:
    """Groups as flat arrays. Offsets are int64, groups + 1.

    group_docs offsets documents, word_offsets the pattern words, count_offsets the counts.
    """

    group_docs: np.ndarray
    word_offsets: np.ndarray
    words: np.ndarray
    count_offsets: np.ndarray
    counts: np.ndarray

    @property
    def sizes(self) -> np.ndarray:
        """Documents in each group."""
        return np.diff(self.group_docs)
