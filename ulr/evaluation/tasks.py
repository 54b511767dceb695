"""The evaluation of one partition of a window in a task: queries in, totals out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.evaluation.metrics import LOGGING, EvaluationPlan, compute_metrics, load_evidence
from ulr.evaluation.totals import Totals, difference, total
from ulr.features.window import Window, load_window, only_segment
from ulr.models.booster import load_scorer

Scorer = Callable[[np.ndarray], np.ndarray]
Model = str | Scorer  # LightGBM text, or a function that can be pickled


def evaluate_partition(
    name: str,
    queries: pa.Table,
    *,
    models: Mapping[str, Model],
    plan: EvaluationPlan,
    names: Sequence[str] = (),
) -> Iterator[pa.RecordBatch]:
    """Return one row with the totals of a partition.

    queries: rows of `window_schema`. names: of their features, if known.
    """
    scorers = {
        name: load_scorer(model, name, names) if isinstance(model, str) else model
        for name, model in models.items()
    }
    totals = evaluate_queries(queries, scorers, plan)
    yield pa.RecordBatch.from_pydict({"totals": [totals.to_json()]})


def evaluate_queries(
    queries: pa.Table, scorers: Mapping[str, Scorer], plan: EvaluationPlan
) -> Totals:
    """Return totals over all traffic and per segment. queries: rows of `window_schema`."""
    if queries.num_rows == 0:
        return Totals()
    window = load_window(queries, None)
    scores: dict[str, np.ndarray | None] = {LOGGING: None}
    for name, scorer in scorers.items():
        scores[name] = scorer(window.matrix) if window.matrix.size else np.zeros(0)
    return evaluate_window(window, scores, plan)


def evaluate_window(
    window: Window, scores: Mapping[str, np.ndarray | None], plan: EvaluationPlan
) -> Totals:
    """Return totals over all traffic and per segment.

    scores: by ranking, float64 per row of the window's matrix; None: the logged ranking.
    """
    totals = _evaluate_window(window, scores, plan, None)
    if plan.settings.segments:
        for segment in pc.unique(window.segment).drop_null().to_pylist():
            part = only_segment(window, segment)
            totals = totals + _evaluate_window(part, scores, plan, segment)
    return totals


def _evaluate_window(
    window: Window,
    scores: Mapping[str, np.ndarray | None],
    plan: EvaluationPlan,
    segment: str | None,
) -> Totals:
    data = load_evidence(window, plan)
    columns = {name: compute_metrics(data, row_scores) for name, row_scores in scores.items()}
    totals = Totals()
    for name in scores:
        totals = totals + total(columns[name], name, segment)
    with_logging = [(name, LOGGING) for name in scores if name != LOGGING]
    for first, second in dict.fromkeys([*with_logging, *plan.against]):
        gaps = difference(columns[first], columns[second])
        totals = totals + total(gaps, first, segment, against=second)
    return totals
