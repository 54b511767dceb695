"""NDCG, MAP, ARP and ERR on golden labels, per query that was shown (docs/methods.md section 7).

A model ranks all labelled documents of a query. The logged ranking is evaluated list by list, each
list weighted by its sessions; documents that a list did not show follow in the order of the
features table.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import hashes
from ulr.errors import UserError
from ulr.evaluation.shown import ShownDocuments
from ulr.evaluation.totals import Column
from ulr.kernels.layout import Ragged
from ulr.kernels.merge import group_keys
from ulr.kernels.ranking_metrics import metric_names, ranking_metrics

NDCG_CUTS = (1, 3, 5, 10)
_NOT_SHOWN = -1e9  # a score below that of every position


@dataclass(frozen=True)
class LabelledLists:
    """The labelled documents of every query that was shown, query after query.

    row: int64, their rows of the features table; labels: float64; offsets: int64, queries + 1.
    of_shown: int64 per shown document, its index in row and labels, -1 without a label.
    """

    row: np.ndarray
    labels: np.ndarray
    offsets: np.ndarray
    of_shown: np.ndarray
    max_label: int


def load_labels(shown: ShownDocuments, features: pa.Table, max_label: int) -> LabelledLists:
    """Collect the labels by query; of several rows of one document the first counts."""
    first = group_keys(hashes(features["query_id"]), hashes(features["doc_id"]))[1]
    query = pc.index_in(features["query_id"], shown.groups.query_ids).fill_null(-1).to_numpy()
    label = features["label"].fill_null(-1).to_numpy().astype(float)
    row = first[(query[first] >= 0) & (label[first] >= 0)]
    row = row[np.argsort(query[row], kind="stable")]
    _check_labels(features, row, label, max_label)
    index = np.full(features.num_rows + 1, -1)  # the last entry is for documents without features
    index[row] = np.arange(row.size)
    return LabelledLists(
        row=row,
        labels=label[row],
        offsets=np.searchsorted(query[row], np.arange(shown.queries + 1)).astype(np.int64),
        of_shown=index[shown.feature_row],
        max_label=max_label,
    )


def _check_labels(features: pa.Table, rows: np.ndarray, label: np.ndarray, max_label: int) -> None:
    # ERR would stop with a probability above 1. Clipping would hide a wrong setting, since the
    # gains of NDCG are not clipped.
    above = rows[label[rows] > max_label]
    if above.size:
        query, document = (features[name][int(above[0])] for name in ("query_id", "doc_id"))
        raise UserError(
            f"label {label[above[0]]:.0f} of query {query}, document {document} is above "
            f"evaluate.max_label = {max_label}; set it to the highest label"
        )


def golden_metrics(
    shown: ShownDocuments, labelled: LabelledLists, row_scores: np.ndarray | None
) -> list[Column]:
    """Return a column per metric; queries without a positive label have weight 0.

    row_scores: float64 per row of the features table; None: the logged ranking.
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
    query = shown.groups.query
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
