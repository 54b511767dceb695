"""NDCG, MAP, ARP and ERR on golden labels (METHODS section 7), per query that was shown.

A model ranks all judged documents of a query. The logging ranking is judged by the lists that
were shown, each by its sessions; what it did not show comes after, in the order of the features.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from ulr.engine.columns import hashes
from ulr.errors import UserError
from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column
from ulr.kernels.merge import group_keys
from ulr.kernels.ranking_metrics import metric_names, ranking_metrics

CUTS = (1, 3, 5, 10)
_UNSEEN = -1e9  # below every position


@dataclass(frozen=True)
class Judged:
    """Judged documents of the queries seen, query after query.

    row: int64, their rows in the features table; offsets: int64, queries + 1; labels: float64.
    """

    row: np.ndarray
    offsets: np.ndarray
    labels: np.ndarray
    max_label: int


def judge(seen: ShownDocuments, features: pa.Table, max_label: int) -> Judged:
    """The first row of every (query, document) that has a label, by query."""
    query_hash, doc_hash = (hashes(features[n]) for n in ("query_id", "doc_id"))
    first = group_keys(query_hash, doc_hash)[1]
    order = np.argsort(seen.shown.query_hash)
    ranked = seen.shown.query_hash[order]
    at = np.minimum(np.searchsorted(ranked, query_hash[first]), max(ranked.size - 1, 0))
    shown = ranked[at] == query_hash[first] if ranked.size else np.zeros(first.size, bool)
    label = features["label"].fill_null(-1).to_numpy().astype(float)
    kept = shown & (label[first] >= 0)
    row, query = first[kept], order[at[kept]]
    place = np.lexsort((row, query))
    _check_labels(features, row, label, max_label)
    offsets = np.searchsorted(query[place], np.arange(seen.queries + 1))
    return Judged(row[place], offsets.astype(np.int64), label[row[place]], max_label)


def _check_labels(features: pa.Table, rows: np.ndarray, label: np.ndarray, max_label: int) -> None:
    """ERR's chance to stop would be above 1. Clipping would hide a wrong setting, and NDCG's gains
    are not clipped."""
    above = rows[label[rows] > max_label]
    if above.size:
        query, document = (features[name][int(above[0])] for name in ("query_id", "doc_id"))
        raise UserError(
            f"label {label[above[0]]:.0f} of query {query}, document {document} is above "
            f"evaluate.max_label = {max_label}; set that to the highest label there is"
        )


def golden_columns(seen: ShownDocuments, judged: Judged, scores: np.ndarray | None) -> list[Column]:
    """One column per metric. scores: per features row; None: the ranking that was shown."""
    if judged.row.size == 0:
        return []
    values = _shown_metrics(seen, judged) if scores is None else _model_metrics(judged, scores)
    known = ~np.isnan(values[:, 0])
    return [
        Column(name, None, np.where(known, values[:, n], 0.0), known.astype(float))
        for n, name in enumerate(metric_names(CUTS))
    ]


def _model_metrics(judged: Judged, scores: np.ndarray) -> np.ndarray:
    return ranking_metrics(
        scores[judged.row], judged.labels, judged.offsets, cuts=CUTS, max_label=judged.max_label
    )


def _shown_metrics(seen: ShownDocuments, judged: Judged) -> np.ndarray:
    """Every shown list completed with the query's other documents; the mean over sessions."""
    sizes = np.diff(judged.offsets)[seen.shown.query]
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    within = np.arange(offsets[-1]) - np.repeat(offsets[:-1], sizes)
    labels = judged.labels[np.repeat(judged.offsets[seen.shown.query], sizes) + within]
    scores = np.full(offsets[-1], _UNSEEN)
    place = np.full(int(judged.row.max()) + 1, -1, np.int64)  # features row -> place in its query
    place[judged.row] = np.arange(judged.row.size)
    place[judged.row] -= np.repeat(judged.offsets[:-1], np.diff(judged.offsets))
    row = seen.rows.feature_row[seen.rows.row_of]
    inside = (row >= 0) & (row < place.size)
    inside[inside] = place[row[inside]] >= 0
    scores[offsets[seen.group[inside]] + place[row[inside]]] = -seen.position[inside]
    values = ranking_metrics(scores, labels, offsets, cuts=CUTS, max_label=judged.max_label)
    sums = [np.bincount(seen.shown.query, column * seen.sessions, seen.queries)
            for column in values.T]  # fmt: skip
    return np.stack(sums, axis=1) / seen.query_sessions[:, None]
