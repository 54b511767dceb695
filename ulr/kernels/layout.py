"""The flat arrays that kernels read: lists, histograms of click patterns, weighted pairs.

Lists of different lengths are stored one after the other, with offsets that say where each begins.
Numba takes a NamedTuple of arrays as one argument.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np


def offsets_of(lengths: np.ndarray) -> np.ndarray:
    """Return where lists of these lengths (integers or booleans) begin, and the end: int64."""
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


class Ragged(NamedTuple):
    """Lists one after the other. offsets: int64, lists + 1, starting at 0."""

    offsets: np.ndarray

    @classmethod
    def from_lengths(cls, lengths: np.ndarray) -> Ragged:
        """Return lists of these lengths."""
        return cls(offsets_of(lengths))

    @property
    def lengths(self) -> np.ndarray:
        """Number of elements of each list, int64."""
        return np.diff(self.offsets)

    def owner(self) -> np.ndarray:
        """Return the number of the list of each element, int64."""
        return np.repeat(np.arange(self.offsets.size - 1), self.lengths)

    def within(self) -> np.ndarray:
        """Return the place of each element in its list, int64, from 0."""
        starts = np.repeat(self.offsets[:-1], self.lengths)
        place: np.ndarray = np.arange(starts.size) - starts
        return place

    def select(self, keep: np.ndarray) -> Ragged:
        """Return the lists without the elements where `keep` (bool per element) is false."""
        return Ragged(offsets_of(keep)[self.offsets])


class Patterns(NamedTuple):
    """Histograms of click patterns, group after group.

    A pattern is one or more words: bit b of word w is the click at index 64 w + b. All patterns of
    a group have the same number of words. With several levels of feedback a pattern has the words
    of each level, one after the other; kernels read patterns of one level (`select_levels`).

    word_offsets   int64, groups + 1   words of each group
    words          int64               patterns of each group, ascending
    count_offsets  int64, groups + 1   patterns of each group
    counts         int64               sessions with this pattern
    """

    word_offsets: np.ndarray
    words: np.ndarray
    count_offsets: np.ndarray
    counts: np.ndarray


class Histograms(NamedTuple):
    """Displayed rankings with their click patterns. group_docs: int64, offsets of documents."""

    group_docs: np.ndarray
    patterns: Patterns

    @property
    def sizes(self) -> np.ndarray:
        """Number of documents in each group, int64."""
        return np.diff(self.group_docs)


AS_COUNTED, SMOOTHED, BY_PATTERN = range(3)  # which counts of a pair a weighting multiplies


class Stopping(NamedTuple):
    """Users who stop after clicks: position k is reached with reach_k stay^(clicks above).

    reach  float64, segments x K   without clicks above
    stay   float64, segments       after a click, 1 - phi
    limit  float                   upper bound on the inverse of this probability
    """

    reach: np.ndarray
    stay: np.ndarray
    limit: float


class WeightTables(NamedTuple):
    """Weights of pairs by type and position, for every segment (docs/methods.md section 4).

    A pair has a weight in each of W weightings, which share its two documents.

    of_group   int64, groups             segment of each group, an index into the tables below
    weights    W x segments x 4 x K x K  weight of each pair type, clipped
    unclipped  segments x 4 x K x K      the first weighting before clipping
    counts     int64, W                  which counts of a pair the weights multiply
    saturated  bool, W                   whether the weight saturates with traffic
    psi        segments x K x K          joint examination, theta on the diagonal
    variance   float                     prior variance of co-clicks; inf: no smoothing
    session    float64, K + 1            weight of a session by its number of clicks
    all_pairs  bool                      whether pairs without a click have weight, too
    stopping   Stopping                  for counts divided by p_k
    """

    of_group: np.ndarray
    weights: np.ndarray
    unclipped: np.ndarray
    counts: np.ndarray
    saturated: np.ndarray
    psi: np.ndarray
    variance: float
    session: np.ndarray
    all_pairs: bool
    stopping: Stopping


class WeightedPairs(NamedTuple):
    """Pairs of documents of every group.

    offsets       int64, groups + 1   pairs of each group, sorted by (i, j)
    i, j          int32               the two documents, counted from their group's first; i < j
    u_ij, u_ji    float32             weight of "i should be above j", and of the reverse; with
                                      several weightings, pairs x weightings
    """

    offsets: np.ndarray
    i: np.ndarray
    j: np.ndarray
    u_ij: np.ndarray
    u_ji: np.ndarray

    @classmethod
    def zeros(cls, offsets: np.ndarray, weightings: int | None = None) -> WeightedPairs:
        """Return arrays of the right types for a kernel to fill."""
        size = int(offsets[-1])
        shape = (size,) if weightings is None else (size, weightings)
        ints, floats = np.zeros((2, size), np.int32), np.zeros((2, *shape), np.float32)
        return cls(offsets.astype(np.int64), *ints, *floats)


class PairLists(NamedTuple):
    """Queries, their rankings and their weighted pairs.

    A query has rows, its distinct documents, and one or more groups. A group is a list of
    documents, each a row of the query, and unordered pairs of places in that list. A document
    shown in ten rankings is one row to the learner, and its gradient is the sum over the ten.
    Indices are relative to the query or the group, so tables concatenate by adding offsets.
    Offsets are int64 and start at 0; other arrays are as long as the last of their offsets.

    query_rows    Q + 1   rows of each query
    query_groups  Q + 1   groups of each query
    group_docs    G + 1   documents of each group
    group_pairs   G + 1   pairs of each group, sorted by (i, j)
    doc_row       int32   row of a document, counted from its query's first
    position      int32   where it was shown, from 1; 0 if it was shown at several positions
    i, j          int32   the two documents of a pair, counted from their group's first; i < j
    u_ij, u_ji    float32 weight of "i should be above j", and of the reverse; with several
                          weightings, pairs x weightings
    clicks        float32 sessions of the group that clicked a document
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
    clicks: np.ndarray

    @property
    def queries(self) -> int:
        """Number of queries."""
        return self.query_rows.size - 1

    @property
    def rows(self) -> int:
        """Number of distinct (query, document)."""
        return int(self.query_rows[-1])

    @property
    def pairs(self) -> int:
        """Number of pairs over all groups."""
        return self.i.size

    def weighting(self, number: int) -> PairLists:
        """Return the lists with one of their weightings; the same lists if they have only one."""
        if self.u_ij.ndim == 1:
            return self
        u_ij, u_ji = (np.ascontiguousarray(u[:, number]) for u in (self.u_ij, self.u_ji))
        return self._replace(u_ij=u_ij, u_ji=u_ji)


_OFFSETS = 4  # the first fields of PairLists


def concat_pairs(parts: Sequence[PairLists]) -> PairLists:
    """Return the queries of all parts, in order."""
    columns = list(zip(*parts, strict=True))
    offsets = [_concat_offsets(arrays) for arrays in columns[:_OFFSETS]]
    return PairLists(*offsets, *(np.concatenate(arrays) for arrays in columns[_OFFSETS:]))


def take_queries(pairs: PairLists, chosen: np.ndarray) -> PairLists:
    """Return the chosen queries (bool per query) with their rows, groups and pairs."""
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
        clicks=pairs.clicks[in_doc],
    )


def _concat_offsets(arrays: Sequence[np.ndarray]) -> np.ndarray:
    ends = np.cumsum([0] + [int(a[-1]) for a in arrays])
    moved = [a[1:] + end for a, end in zip(arrays, ends[:-1], strict=True)]
    return np.concatenate([np.zeros(1, np.int64), *moved]).astype(np.int64)
