"""The scoring of one partition in a Spark task: Arrow batches in, one Parquet file out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from ulr.features.copartition import receive
from ulr.features.join import feature_matrix
from ulr.models.booster import load_scorer
from ulr.warehouse.schema import scores_schema
from ulr.warehouse.storage import Storage

Batches = Iterator[pa.RecordBatch]
SCORED = "rows long, queries long"  # columns of the batches that `score_partition` returns


def score_partition(batches: Batches, *, url: str, model: str, name: str) -> Batches:
    """Write the scores of a partition to the folder; return one row with its counts."""
    number, _, features = receive(batches)
    if number is None:
        return
    table = score_queries(features, load_scorer(model, name))
    Storage(url).write_table(table, f"part-{number:05d}.parquet")
    queries = int((np.asarray(table["rank"]) == 1).sum())
    yield pa.RecordBatch.from_pydict({"rows": [table.num_rows], "queries": [queries]})


def score_queries(features: pa.Table, scorer: Callable[[np.ndarray], np.ndarray]) -> pa.Table:
    """Return the rows of the table `scores`, for queries that are present as a whole."""
    matrix = feature_matrix(features)
    scores = scorer(matrix) if features.num_rows else np.zeros(0)
    table = pa.table(
        {"query_id": features["query_id"], "doc_id": features["doc_id"], "score": scores}
    )
    # Equal scores are sorted by document, so that the order of the files does not matter.
    order = [("query_id", "ascending"), ("score", "descending"), ("doc_id", "ascending")]
    table = table.sort_by(order).combine_chunks()
    query = table["query_id"].combine_chunks().dictionary_encode()
    code = np.asarray(query.indices) if len(query) else np.zeros(0, np.int64)
    first = np.flatnonzero(np.diff(code, prepend=-1))
    rank = np.arange(code.size) - np.repeat(first, np.diff([*first, code.size])) + 1
    columns = [table["query_id"], table["doc_id"], pa.array(rank, pa.int32()), table["score"]]
    return pa.table(columns, schema=scores_schema)
