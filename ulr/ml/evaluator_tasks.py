"""The evaluation of predictions in Spark tasks: rows of whole lists in, sums out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
from pyspark import TaskContext

from ulr.engine.interface import Batches
from ulr.evaluation.metrics import EvaluationPlan
from ulr.evaluation.tasks import evaluate_queries
from ulr.evaluation.totals import Totals
from ulr.kernels.ranking_metrics import metric_names, ranking_metrics
from ulr.ml.lists import check_values, chunks_at, list_starts
from ulr.ml.session_rows import RowOptions, session_schema, window_tables

SUBJECT = "model"
_NOT_CUT = 2**31 - 1
_REQUIRED = ("list_id", "position", "label", "prediction")
_schema = pa.schema(
    [("list_id", pa.string()), ("label", pa.float64()), ("prediction", pa.float64())]
)


def evaluate_labels(batches: Batches, *, metric: str, k: int, max_label: int) -> Batches:
    """Yield the sum of a metric over the lists with a positive label, and their number."""
    checked = (check_values(batch, _REQUIRED) for batch in batches)
    column = metric_names((k,)).index(metric)
    total, lists = 0.0, 0
    for table in chunks_at(checked, _schema, ("list_id",)):
        offsets = np.append(list_starts(table, ["list_id"]), table.num_rows)
        scores, labels = table["prediction"].to_numpy(), table["label"].to_numpy()
        values = ranking_metrics(scores, labels, offsets, cuts=(k,), max_label=max_label)[:, column]
        total += float(np.nansum(values))
        lists += int(np.count_nonzero(~np.isnan(values)))
    yield pa.RecordBatch.from_pydict({"total": [total], "lists": [lists]})


def evaluate_clicks(batches: Batches, *, plan: EvaluationPlan) -> Batches:
    """Yield the totals of every metric of clicks; every list is a query."""
    options = RowOptions(golden=False, placed=True, has_documents=False, max_position=_NOT_CUT)
    totals = Totals()
    for queries in window_tables(_as_sessions(batches), options):
        totals = totals + evaluate_queries(queries, {SUBJECT: _prediction}, plan)
    context = TaskContext.get()
    part = 0 if context is None else context.partitionId()
    yield pa.RecordBatch.from_pydict(
        {"part": pa.array([part], pa.int32()), "totals": [totals.to_json()]}
    )


def _as_sessions(batches: Batches) -> Iterator[pa.RecordBatch]:
    """Yield rows with `session_schema` whose features are the bits of the prediction."""
    for batch in batches:
        check_values(batch, _REQUIRED)
        prediction = batch["prediction"].to_numpy(zero_copy_only=False)
        bits = pa.array(np.ascontiguousarray(prediction).view(np.float32))
        offsets = pa.array(np.arange(0, len(bits) + 1, 2, dtype=np.int32))
        columns = {
            "query_id": batch["list_id"],
            "list_id": batch["list_id"],
            "position": batch["position"],
            "label": batch["label"],
            "features": pa.ListArray.from_arrays(offsets, bits),
            "doc_id": pa.nulls(batch.num_rows, pa.string()),
            "segment": batch["segment"],
        }
        yield pa.RecordBatch.from_pydict({name: columns[name] for name in session_schema.names})


def _prediction(matrix: np.ndarray) -> np.ndarray:
    """Return the predictions (float64) whose bits are the two columns of the matrix."""
    scores: np.ndarray = np.ascontiguousarray(matrix).view(np.float64)[:, 0]
    return scores
