"""Saturation of pair weights with traffic (docs/methods.md section 4.6).

The information on a pair of documents is the sum of N s over the lists of its query that showed
both, with N sessions of the list and the precision s of the two positions. A pair with information
I is multiplied by 1 / (1 + I / n_0), so that it counts as at most n_0 sessions of precision 1.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ulr.kernels.jit import kernel
from ulr.kernels.layout import Histograms

MAX_ROWS = 4096  # of a query whose lists are added up, in a matrix of rows x rows


class Saturation(NamedTuple):
    """The lists of every query, and how their information counts.

    query_groups  int64, Q + 1       lists of each query
    query_rows    int64, Q + 1       distinct documents of each query
    row_of        int64              row of each document of a list
    sessions      float64, G         sessions of each list
    precision     segments x K x K   of a pair of positions
    n_0           float              information that halves the weight of a session
    """

    query_groups: np.ndarray
    query_rows: np.ndarray
    row_of: np.ndarray
    sessions: np.ndarray
    precision: np.ndarray
    n_0: float


def no_saturation(groups: Histograms) -> Saturation:
    """Return lists without information: every list is a query."""
    count = groups.group_docs.size - 1
    rows = np.arange(groups.group_docs[-1])
    each = np.arange(count + 1, dtype=np.int64)
    return Saturation(each, groups.group_docs, rows, np.zeros(count), np.zeros((1, 1, 1)), np.inf)


@kernel()
def adds_lists(lists: Saturation, q: int) -> bool:
    """Return whether the lists of a query are added up.

    A query with one list needs no sum. One with more than MAX_ROWS documents would need too much
    memory: each of its lists then has the information of its own sessions only.
    """
    several: bool = lists.query_groups[q + 1] - lists.query_groups[q] > 1
    return several and lists.query_rows[q + 1] - lists.query_rows[q] <= MAX_ROWS


@kernel()
def matrix_for(lists: Saturation) -> np.ndarray:
    """Return zeros, rows x rows, for the query with the most documents of those added up."""
    rows = 0
    for q in range(lists.query_rows.size - 1):
        if adds_lists(lists, q):
            rows = max(rows, lists.query_rows[q + 1] - lists.query_rows[q])
    return np.zeros((rows, rows))


@kernel()
def add_information(
    lists: Saturation, groups: Histograms, of_group: np.ndarray, q: int, keep: float,
    total: np.ndarray,
) -> None:  # fmt: skip
    """Add the information of a query's pairs to total (rows x rows), or clear their cells.

    keep: 1 to add, 0 to clear. The smaller row of a pair is the first index.
    """
    base = lists.query_rows[q]
    for g in range(lists.query_groups[q], lists.query_groups[q + 1]):
        lo, n = groups.group_docs[g], groups.group_docs[g + 1] - groups.group_docs[g]
        weight = keep * lists.sessions[g]
        for a in range(n):
            x = lists.row_of[lo + a] - base
            for b in range(a + 1, n):
                y = lists.row_of[lo + b] - base
                more = weight * lists.precision[of_group[g], a, b]
                total[min(x, y), max(x, y)] = keep * total[min(x, y), max(x, y)] + more


@kernel()
def saturation_factor(
    lists: Saturation, g: int, segment: int, a: int, b: int, rows: tuple[int, int],
    total: np.ndarray,
) -> float:  # fmt: skip
    """Return the factor of documents a and b of list g. rows: theirs in total, or (-1, -1)."""
    if rows[0] >= 0:
        information = total[min(rows[0], rows[1]), max(rows[0], rows[1])]
    else:
        information = lists.sessions[g] * lists.precision[segment, a, b]
    factor: float = 1.0 / (1.0 + information / lists.n_0)
    return factor
