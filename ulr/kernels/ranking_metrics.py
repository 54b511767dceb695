"""NDCG@k, MAP, ERR and the mean rank of relevant documents, of lists ranked by score.

docs/methods.md section 7.1.
All metrics of a query without a positive label are NaN, so that the caller can skip and count it.
Gains are 2^y - 1; documents with equal scores keep their input order.
"""

from __future__ import annotations

import numpy as np

from ulr.errors import UserError
from ulr.kernels.jit import kernel
from ulr.kernels.order import rank_descending


@kernel(inline="always")
def _gain(label: float) -> float:
    gain: float = 2.0**label - 1.0
    return gain


@kernel()
def _dcg(labels: np.ndarray, order: np.ndarray, n: int, k: int) -> float:
    total = 0.0
    for r in range(min(n, k)):
        total += _gain(labels[order[r]]) / np.log2(r + 2.0)
    return total


@kernel()
def _average_precision(labels: np.ndarray, order: np.ndarray, n: int) -> float:
    """Return the mean over relevant documents (label > 0) of the precision at their rank."""
    hits, total = 0, 0.0
    for r in range(n):
        if labels[order[r]] > 0:
            hits += 1
            total += hits / (r + 1.0)
    return total / hits


@kernel()
def _mean_relevant_rank(labels: np.ndarray, order: np.ndarray, n: int) -> float:
    """Return the mean rank, from 1, of the relevant documents; lower is better."""
    hits, total = 0, 0.0
    for r in range(n):
        if labels[order[r]] > 0:
            hits += 1
            total += r + 1.0
    return total / hits


@kernel()
def _reciprocal_rank(labels: np.ndarray, order: np.ndarray, n: int, max_label: float) -> float:
    """Return the expected reciprocal rank (ERR) of the document at which the user stops.

    A user who reaches a document with label y stops with probability (2^y - 1) / 2^max_label.
    """
    reached, total = 1.0, 0.0
    for r in range(n):
        stop = _gain(labels[order[r]]) / 2.0**max_label
        total += reached * stop / (r + 1.0)
        reached *= 1.0 - stop
    return total


@kernel()
def _all_queries(
    scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray, cuts: np.ndarray,
    max_label: float, out: np.ndarray,
) -> None:  # fmt: skip
    longest = np.diff(offsets).max()
    order, spare = np.empty(longest, np.int32), np.empty(longest, np.int32)
    ideal = np.empty(longest, np.int32)
    for q in range(offsets.size - 1):
        n = offsets[q + 1] - offsets[q]
        s, y = scores[offsets[q] : offsets[q + 1]], labels[offsets[q] : offsets[q + 1]]
        if n == 0 or y.max() <= 0:
            out[q, :] = np.nan
            continue
        rank_descending(s, n, order, spare)
        rank_descending(y, n, ideal, spare)
        for c in range(cuts.size):
            out[q, c] = _dcg(y, order, n, cuts[c]) / _dcg(y, ideal, n, cuts[c])
        out[q, cuts.size] = _average_precision(y, order, n)
        out[q, cuts.size + 1] = _mean_relevant_rank(y, order, n)
        out[q, cuts.size + 2] = _reciprocal_rank(y, order, n, max_label)


def metric_names(cuts: tuple[int, ...] = (1, 3, 5, 10)) -> list[str]:
    """Return the column names of `ranking_metrics`, as they are logged to the tracking server."""
    return [*(f"ndcg_at_{k}" for k in cuts), "map", "mean_relevant_rank", "err"]


def ranking_metrics(
    scores: np.ndarray,
    labels: np.ndarray,
    offsets: np.ndarray,
    *,
    cuts: tuple[int, ...] = (1, 3, 5, 10),
    max_label: int = 4,
) -> np.ndarray:
    """Return one row per query and one column per name of `metric_names`, float64.

    scores: float64; labels: any numeric type; offsets: int64, length queries + 1.
    """
    if scores.size != labels.size or scores.size != offsets[-1]:
        raise UserError(
            f"{scores.size} scores, {labels.size} labels, {offsets[-1]} rows: counts must be equal"
        )
    out = np.empty((offsets.size - 1, len(cuts) + 3))
    if out.size:
        _all_queries(
            np.asarray(scores, np.float64), np.asarray(labels, np.float64),
            np.asarray(offsets, np.int64), np.array(cuts), float(max_label), out,
        )  # fmt: skip
    return out
