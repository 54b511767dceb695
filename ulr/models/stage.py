"""A features table scored by a model: every query's documents in their new order.

One shuffle brings a query's rows together; scores are made and sorted there, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from ulr.features.copartition import JoinInputs, copartition, read_partition
from ulr.features.files import find_features
from ulr.features.matrix import feature_matrix
from ulr.models.booster import check_order, load_scorer
from ulr.warehouse.schema import scores_schema
from ulr.warehouse.stage import fingerprint, publish_if_changed
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Outcome, Warehouse, WriteTransaction

Batches = Iterator[pa.RecordBatch]


def build_scores(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    *,
    features: str,
    model: str,
    name: str,
    partitions: int,
    force: bool = False,
) -> Outcome:
    """Publish `scores` of the features under the model text; `name` is recorded with them."""
    feature_files = find_features(features)
    check_order(feature_files, {name: model})
    sources = JoinInputs("", [], features, feature_files.paths)

    def write(scores: WriteTransaction) -> None:
        part = partial(_write_part, url=scores.url, model=model, name=name)
        rows = copartition(start_spark(), sources, partitions).mapInArrow(part, COUNTED).collect()
        scores.publish({"rows": sum(r.rows for r in rows), "queries": sum(r.queries for r in rows)})

    outcome, _ = publish_if_changed(
        warehouse,
        "scores",
        inputs={"features": feature_files.identity, "model": fingerprint(model)},
        settings={"model": name, "partitions": partitions},
        not_in_fingerprint=["model"],
        write=write,
        force=force,
    )
    return outcome


COUNTED = "rows long, queries long"


def score_table(features: pa.Table, scorer: Callable[[np.ndarray], np.ndarray]) -> pa.Table:
    """Rows of the scores table for queries that are here as a whole, query after query."""
    matrix = feature_matrix(features)
    scores = scorer(matrix) if features.num_rows else np.zeros(0)
    table = pa.table(
        {"query_id": features["query_id"], "doc_id": features["doc_id"], "score": scores}
    )
    # Equal scores: by document, so that the order does not depend on that of the files.
    order = [("query_id", "ascending"), ("score", "descending"), ("doc_id", "ascending")]
    table = table.sort_by(order).combine_chunks()
    query = table["query_id"].combine_chunks().dictionary_encode()
    code = np.asarray(query.indices) if len(query) else np.zeros(0, np.int64)
    first = np.flatnonzero(np.diff(code, prepend=-1))
    rank = np.arange(code.size) - np.repeat(first, np.diff([*first, code.size])) + 1
    columns = [table["query_id"], table["doc_id"], pa.array(rank, pa.int32()), table["score"]]
    return pa.table(columns, schema=scores_schema)


def _write_part(batches: Batches, *, url: str, model: str, name: str) -> Batches:
    number, _, features = read_partition(batches)
    if number is None:
        return
    table = score_table(features, load_scorer(model, name))
    Storage(url).write_table(table, f"part-{number:05d}.parquet")
    queries = int((np.asarray(table["rank"]) == 1).sum())
    yield pa.RecordBatch.from_pydict({"rows": [table.num_rows], "queries": [queries]})
