"""The evaluation of one partition in a Spark task: Arrow batches in, totals out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.evaluation.metrics import LOGGING, EvaluationPlan, compute_metrics, load_evidence
from ulr.evaluation.totals import Totals, difference, total
from ulr.features.copartition import read_partition
from ulr.features.matrix import feature_matrix
from ulr.groups.histograms import cut_lists
from ulr.models.booster import load_scorer

Batches = Iterator[pa.RecordBatch]
Scorer = Callable[[np.ndarray], np.ndarray]
EVALUATED = "totals string"  # columns of the batches that `evaluate_partition` returns


def evaluate_partition(
    batches: Batches, *, models: Mapping[str, str], plan: EvaluationPlan
) -> Batches:
    """Return one row with the totals of a partition; none for an empty partition."""
    number, groups, features = read_partition(batches)
    if number is None:
        return
    scorers = {name: load_scorer(text, name) for name, text in models.items()}
    totals = evaluate_queries(groups, features, scorers, plan)
    yield pa.RecordBatch.from_pydict({"totals": [totals.to_json()]})


def evaluate_queries(
    groups: pa.Table, features: pa.Table, scorers: Mapping[str, Scorer], plan: EvaluationPlan
) -> Totals:
    """Return totals over all traffic and per segment, for queries that are present as a whole."""
    if groups.num_rows == 0:
        return Totals()
    groups = cut_lists(groups, plan.pooled.depth)  # deeper clicks have no propensity
    matrix = feature_matrix(features)
    scores: dict[str, np.ndarray | None] = {LOGGING: None}
    for name, scorer in scorers.items():
        scores[name] = scorer(matrix) if features.num_rows else np.zeros(0)
    totals = _evaluate_groups(groups, features, scores, plan, None)
    if plan.settings.segments:
        for segment in pc.unique(groups["segment"]).drop_null().to_pylist():
            part = groups.filter(pc.equal(groups["segment"], segment))
            totals = totals + _evaluate_groups(part, features, scores, plan, segment)
    return totals


def _evaluate_groups(
    groups: pa.Table,
    features: pa.Table,
    scores: Mapping[str, np.ndarray | None],
    plan: EvaluationPlan,
    segment: str | None,
) -> Totals:
    data = load_evidence(groups, features, plan)
    columns = {name: compute_metrics(data, row_scores) for name, row_scores in scores.items()}
    totals = Totals()
    for name in scores:
        totals = totals + total(columns[name], name, segment)
    with_logging = [(name, LOGGING) for name in scores if name != LOGGING]
    for first, second in dict.fromkeys([*with_logging, *plan.against]):
        gaps = difference(columns[first], columns[second])
        totals = totals + total(gaps, first, segment, against=second)
    return totals
