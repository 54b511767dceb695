"""NDCG, MAP, ERR and the mean rank of relevant documents on golden labels, per query.

The queries are those that were shown (docs/methods.md section 7.1).

A model ranks all labelled documents of a query. The logged ranking is evaluated list by list, each
list weighted by its sessions; documents that a list did not show follow in the order of a hash, by
which documents with equal scores are ranked, too.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ulr.errors import UserError
from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column
from ulr.features.window import Window
from ulr.kernels.layout import Ragged
from ulr.kernels.merge import group_keys
from ulr.kernels.ranking_metrics import metric_names, ranking_metrics

NDCG_CUTS = (1, 3, 5, 10)
_NOT_SHOWN = -1e9  # a score below that of every position


@dataclass(frozen=True)
class LabelledLists:
    """The labelled documents of every query that was shown, query after query.

    row: int64, their rows of the feature matrix; labels: float64; offsets: int64, queries + 1.
    of_shown: int64 per shown document, its index in row and labels, -1 without a label.
    """

    row: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    of_shown: np.ndarray
    max_label: int


def load_labels(shown: ShownDocuments, max_label: int) -> LabelledLists:
    """Collect the labels of documents with features, by query and hash of the document.

    A document with rows for several days is judged by the first of them, the latest.
    """
    window = shown.window
    rows = np.flatnonzero((window.labels >= 0) & (window.feature_row >= 0))
    _check_labels(window, rows, max_label)
    document, first = group_keys(np.zeros_like(shown.row_hash), shown.row_hash)
    rows = rows[np.unique(document[rows], return_index=True)[1]]
    query = np.searchsorted(window.query_rows, rows, side="right")
    rows = rows[np.lexsort((shown.row_hash[rows], query))]
    index = np.full(first.size, -1)
    index[document[rows]] = np.arange(rows.size)
    return LabelledLists(
        row=window.feature_row[rows],
        labels=window.labels[rows].astype(float),
        offsets=np.searchsorted(np.sort(rows), window.query_rows).astype(np.int64),
        of_shown=index[document[window.row_of]],
        max_label=max_label,
    )


def _check_labels(window: Window, rows: np.ndarray, max_label: int) -> None:
    # ERR would stop with a probability above 1. Clipping would hide a wrong setting, since the
    # gains of NDCG are not clipped.
    above = rows[window.labels[rows] > max_label]
    if above.size:
        row = int(above[0])
        query = window.query_ids[int(np.searchsorted(window.query_rows, row, side="right")) - 1]
        raise UserError(
            f"label {window.labels[row]} of query {query}, document {window.names[row]} is above "
            f"evaluate.max_label = {max_label}; set it to the highest label"
        )


def golden_metrics(
    shown: ShownDocuments, labelled: LabelledLists, row_scores: np.ndarray | None
) -> list[Column]:
    """Return a column per metric; queries without a positive label have weight 0.

    row_scores: float64 per row of the feature matrix; None: the logged ranking.
    """
    if labelled.row.size == 0:
        return []
    if row_scores is None:
        values = _logged_metrics(shown, labelled)
    else:
        values = _metrics(labelled, row_scores[labelled.row], labelled.labels, labelled.offsets)
    known = ~np.isnan(values[:, 0])
    return [
        Column(name, None, np.where(known, values[:, n], 0.0), known.astype(float))
        for n, name in enumerate(metric_names(NDCG_CUTS))
    ]


def _logged_metrics(shown: ShownDocuments, labelled: LabelledLists) -> np.ndarray:
    """Evaluate each displayed list, completed with the query's other documents; average by
    sessions."""
    query = shown.window.query
    lists = Ragged.from_lengths(np.diff(labelled.offsets)[query])
    labels = labelled.labels[labelled.offsets[query[lists.owner()]] + lists.within()]
    scores = np.full(labels.size, _NOT_SHOWN)
    listed = np.flatnonzero(labelled.of_shown >= 0)
    within = labelled.of_shown[listed] - labelled.offsets[shown.query[listed]]
    scores[lists.offsets[shown.group[listed]] + within] = -shown.position[listed]
    values = _metrics(labelled, scores, labels, lists.offsets)
    sums = [np.bincount(query, column * shown.sessions, shown.queries) for column in values.T]
    return np.stack(sums, axis=1) / shown.query_sessions[:, None]


def _metrics(
    labelled: LabelledLists, scores: np.ndarray, labels: np.ndarray, offsets: np.ndarray
) -> np.ndarray:
    return ranking_metrics(scores, labels, offsets, cuts=NDCG_CUTS, max_label=labelled.max_label)
