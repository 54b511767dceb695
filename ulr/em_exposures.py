"""What regression-EM looks at: documents of some queries, where they were shown, their features."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.config.settings import Propensities
from ulr.errors import UserError
from ulr.propensity.regression_em import Exposures


def em_exposures(spark: SparkSession, shown: DataFrame, how: Propensities) -> Exposures:
    """At most so many queries, drawn by hash, with their documents' features if there are any."""
    em, blocks = how.regression_em, how.harvest.blocks
    drawn = shown.select("query_id").distinct().orderBy(F.xxhash64("query_id")).limit(em.queries)
    keys = ["query_id", "doc_id"]
    rows = shown.join(drawn, on="query_id", how="left_semi").groupBy(*keys, "position")
    rows = rows.agg(F.sum("clicks").alias("clicks"), F.sum("impressions").alias("impressions"))
    documents = rows.select(*keys).distinct()
    if em.features:
        known = spark.read.parquet(em.features).groupBy(*keys).agg(F.min("features"))
        documents = documents.join(known.toDF(*keys, "features"), on=keys, how="inner")
    block = F.pmod(F.xxhash64("query_id"), F.lit(blocks)).alias("block")
    documents = documents.withColumn("block", block).orderBy(*keys).toArrow()
    if not documents.num_rows:
        raise UserError(f"regression_em.features: {em.features} has none of the documents shown")
    number = documents.select(keys).append_column("n", pa.array(np.arange(documents.num_rows)))
    table = rows.toArrow().join(number, keys=keys, join_type="inner")
    table = table.sort_by([("n", "ascending"), ("position", "ascending")])  # sums run in this order
    features = _matrix(documents["features"], em.features) if em.features else None
    column = {name: table[name].to_numpy() for name in ("n", "position", "clicks", "impressions")}
    return Exposures(
        column["n"],
        column["position"] - 1,
        column["clicks"].astype(float),
        column["impressions"].astype(float),
        documents["block"].to_numpy(),
        features,
    )


def _matrix(rows: pa.ChunkedArray, url: str) -> np.ndarray:
    """Feature lists, all of one length, as a matrix."""
    lengths = pc.unique(pc.list_value_length(rows)).to_pylist()
    if len(lengths) != 1 or not lengths[0]:
        told = ", ".join(str(n or "no") for n in lengths[:3])
        raise UserError(
            f"regression_em.features: {url} has rows of {told} features; one length for all is "
            "needed"
        )
    return pc.list_flatten(rows).to_numpy().reshape(len(rows), -1)
