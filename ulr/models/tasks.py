"""The scoring of one partition in a Spark task: Arrow batches in, one Parquet file out."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pyarrow as pa

from ulr.engine.columns import whole
from ulr.features.copartition import read_partition
from ulr.features.matrix import feature_matrix
from ulr.kernels.layout import Ragged
from ulr.models.booster import load_scorer
from ulr.warehouse.schema import scores_schema
from ulr.warehouse.storage import Storage

Batches = Iterator[pa.RecordBatch]
SCORED = "rows long, queries long"  # columns of the batches that `score_partition` returns


def score_partition(batches: Batches, *, url: str, model: str, name: str) -> Batches:
    """Write the scores of a partition to the folder; return one row with its counts."""
    number, _, features = read_partition(batches)
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
    documents = np.bincount(whole(table["query_id"]).dictionary_encode().indices)
    rank = Ragged.from_lengths(documents).within() + 1
    columns = [table["query_id"], table["doc_id"], pa.array(rank, pa.int32()), table["score"]]
    return pa.table(columns, schema=scores_schema)
