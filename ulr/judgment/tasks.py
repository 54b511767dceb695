"""Judgments in Spark tasks: clicks by document, ratings, lines of the file."""

from __future__ import annotations

from functools import partial

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from ulr.engine.columns import whole
from ulr.engine.session import spark_schema
from ulr.engine.spark_versions import to_arrow
from ulr.engine.tasks import Batches, map_batches
from ulr.judgment.counts import CELL, DOCUMENT, shown_schema
from ulr.judgment.csv_text import Layout, csv_text
from ulr.judgment.judge import TAIL, JudgePlan, judge, judgments_schema

LINES = "text binary, documents long, supported long"  # columns of `lines_of`


def documents_of(shown: DataFrame) -> DataFrame:
    """Return `shown_schema`. shown: `exposures_schema`; buckets and days are summed."""
    cells = shown.groupBy(*DOCUMENT, *CELL[:2]).agg(*(F.sum(n).alias(n) for n in CELL[2:]))
    listed = F.sort_array(F.collect_list(F.struct(*CELL))).alias("cells")
    return cells.groupBy(*DOCUMENT).agg(listed)


def sample_documents(documents: DataFrame, size: int) -> pa.Table:
    """Return at most `size` documents, those with the lowest hashes, in that order."""
    order = F.xxhash64(*DOCUMENT)
    rows = documents.orderBy(order, *DOCUMENT).limit(size)
    return to_arrow(rows).cast(shown_schema)


def lines_of(documents: DataFrame, plan: JudgePlan, layout: Layout, partitions: int) -> DataFrame:
    """Return the lines of the file in order, in blocks: by query, then best document first."""
    rated = map_batches(documents, partial(_judge, plan=plan), spark_schema(judgments_schema))
    order = [F.col("query_id"), F.col("rating").desc(), F.col("doc_id")]
    in_order = rated.repartitionByRange(partitions, "query_id").sortWithinPartitions(*order)
    return map_batches(in_order, partial(_write, layout=layout), LINES)


def _judge(batches: Batches, *, plan: JudgePlan) -> Batches:
    for batch in batches:
        yield from judge(batch, plan).to_batches()


def _write(batches: Batches, *, layout: Layout) -> Batches:
    for batch in batches:
        table = pa.Table.from_batches([batch])
        block = [csv_text(table, layout)], [table.num_rows], [count_supported(table, layout)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values) for values in block], names=["text", "documents", "supported"]
        )


def count_supported(judgments: pa.Table, layout: Layout) -> int:
    """Return how many intervals are at most half as wide as that of the prior."""
    lower, upper = layout.prior.interval(TAIL)
    widths = whole(judgments["upper"]).to_numpy() - whole(judgments["lower"]).to_numpy()
    return int(np.count_nonzero(widths <= (upper - lower) / 2))
