"""The counting passes: from files of the groups table to small tables of counts.

The only Spark file here. Spark hands out files; a task reads the columns it needs with pyarrow,
which is quicker than carrying lists out of the JVM, and adds them up in numba. `files` are paths on
the filesystem of `url`. Groups need not be merged over dates, because counts add.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.config.settings import Propensities
from ulr.engine.session import spark_schema
from ulr.errors import UserError
from ulr.propensity.regression_em import Exposures
from ulr.propensity.tally import (
    ARM_COLUMNS,
    EXPOSURE_COLUMNS,
    ArmTally,
    exposure_batch,
    read_batches,
)
from ulr.warehouse.schema import (
    exposures_schema,
    harvest_schema,
    moments_schema,
    swap_counts_schema,
)

FEW_TASKS = 64


def swap_counts(
    spark: SparkSession, url: str, files: Sequence[str], *, max_position: int
) -> pa.Table:
    """Click and co-click totals per (segment, bucket, arm): rows of `swap_counts_schema`."""
    shares = _shares(spark, files)
    count = partial(_count_arms, url=url, shares=shares, max_position=max_position)
    sums = _tasks(spark, shares).mapInArrow(count, spark_schema(swap_counts_schema))
    keys = swap_counts_schema.names[:-1]
    if len(shares) > FEW_TASKS:  # many partial sums are added where they are
        sums = sums.groupBy(*keys).agg(F.sum("sessions").alias("sessions"))
    total = sums.toArrow().group_by(keys).aggregate([("sessions", "sum")])
    return total.rename_columns(swap_counts_schema.names).cast(swap_counts_schema)


def exposures(
    spark: SparkSession, url: str, files: Sequence[str], *, max_position: int
) -> DataFrame:
    """Clicks and impressions of each document where it was shown, per segment and bucket."""
    shares = _shares(spark, files)
    explode = partial(_explode, url=url, shares=shares, max_position=max_position)
    rows = _tasks(spark, shares).mapInArrow(explode, spark_schema(exposures_schema))
    keys = ["segment", "bucket", "query_id", "doc_id", "position"]
    return rows.groupBy(*keys).agg(
        F.sum("clicks").alias("clicks"), F.sum("impressions").alias("impressions")
    )


def harvest_table(shown: DataFrame, *, blocks: int, weight: str) -> pa.Table:
    """Position x position counts from documents seen at several positions: `harvest_schema`.

    A document seen n times at k and m times at l is one stratum. Weight `pooled` is Mantel and
    Haenszel's, n m / (n + m): a document seen once at l cannot drown one seen a thousand times at
    both. Weight `document` is 1, as in Agarwal et al. 2019: every document counts the same.
    """
    keys = ["segment", "query_id", "doc_id"]
    here = shown.groupBy(*keys, "position").agg(
        F.sum("clicks").alias("clicks"), F.sum("impressions").alias("impressions")
    )
    seen = F.collect_list(F.struct("position", "clicks", "impressions")).alias("seen")
    moved = here.groupBy(*keys).agg(seen).where(F.size("seen") > 1)
    block = F.pmod(F.xxhash64("query_id"), F.lit(blocks)).cast("int").alias("block")
    one = moved.select("segment", block, "seen", F.explode("seen").alias("a"))
    two = one.select("segment", "block", "a", F.explode("seen").alias("b"))
    n, m = F.col("a.impressions"), F.col("b.impressions")
    shared = n * m / (n + m) if weight == "pooled" else F.lit(1.0)
    pairs = two.where("a.position != b.position").select(
        "segment",
        "block",
        F.col("a.position").alias("k"),
        F.col("b.position").alias("l"),
        (shared * F.col("a.clicks") / n).alias("clicks"),
        shared.alias("impressions"),
    )
    total = pairs.groupBy("segment", "block", "k", "l").agg(
        _exact_sum(F.col("clicks")).alias("clicks"),
        _exact_sum(F.col("impressions")).alias("impressions"),
        F.count("*").alias("documents"),
    )
    return _in_order(total.toArrow().cast(harvest_schema), ["segment", "block", "k", "l"])


def moment_table(shown: DataFrame, *, blocks: int) -> pa.Table:
    """What a regression of position-k rates on position-1 rates needs: `moments_schema`.

    x = rate at the bucket's first position, y at its second, of the same document. Powers of x are
    factorial moments, c(c-1).../(n(n-1)...): unbiased for the powers of the true rate, where plain
    powers of an observed rate would carry its noise and flatten the slope.
    """
    single = shown.where(F.col("bucket").rlike(r"^\d+:\d+$"))
    ends = F.split("bucket", ":")
    first, second = ends[0].cast("int"), ends[1].cast("int")
    at = {"c": ("clicks", first), "n": ("impressions", first)}
    at |= {"d": ("clicks", second), "m": ("impressions", second)}
    sums = [
        F.sum(F.when(F.col("position") == position, F.col(column)).otherwise(0)).alias(name)
        for name, (column, position) in at.items()
    ]
    documents = single.groupBy("segment", "bucket", "query_id", "doc_id").agg(*sums)
    powers = [F.lit(1.0)]
    for lost in range(4):
        powers.append(powers[-1] * (F.col("c") - lost) / (F.col("n") - lost))
    w, y = F.col("n") * F.col("m") / (F.col("n") + F.col("m")), F.col("d") / F.col("m")
    moments = [_exact_sum(w * x).alias(f"x{p}") for p, x in enumerate(powers)]
    moments += [_exact_sum(w * x * y).alias(f"x{p}y") for p, x in enumerate(powers[:3])]
    block = F.pmod(F.xxhash64("query_id"), F.lit(blocks)).cast("int").alias("block")
    table = documents.where("n > 3 AND m > 0").groupBy("segment", "bucket", block)
    total = table.agg(F.count("*").alias("documents"), *moments).toArrow().cast(moments_schema)
    return _in_order(total, ["segment", "bucket", "block"])


def _exact_sum(x: Column) -> Column:
    """A sum whose last bits do not depend on how the rows lie: whole numbers are added.

    x is cut into units of 2^-20 and, what is left of it, of 2^-56.
    """
    units = F.floor(x * F.lit(2.0**20))
    rest = F.round((x * F.lit(2.0**20) - units) * F.lit(2.0**36)).cast("long")
    return F.sum(units) / F.lit(2.0**20) + F.sum(rest) / F.lit(2.0**56)


def _in_order(table: pa.Table, keys: list[str]) -> pa.Table:
    """Rows by their keys: segments are added up on the driver, in the order they come in."""
    return table.sort_by([(key, "ascending") for key in keys])


def _shares(spark: SparkSession, files: Sequence[str]) -> list[list[str]]:
    """Files per task. One task a core: files are alike, and a Python task costs 0.2 s to begin."""
    if not files:
        raise UserError(
            "the groups of these dates hold no page; give other dates, or look into `quarantine`"
        )
    tasks = min(len(files), spark.sparkContext.defaultParallelism)
    return [list(files[i::tasks]) for i in range(tasks)]


def _tasks(spark: SparkSession, shares: list[list[str]]) -> DataFrame:
    return spark.range(0, len(shares), 1, len(shares))


def _files(numbers: Iterator[pa.RecordBatch], shares: list[list[str]]) -> list[str]:
    """The files of the tasks whose numbers came in."""
    return [file for batch in numbers for n in batch.column(0).to_pylist() for file in shares[n]]


def _count_arms(
    numbers: Iterator[pa.RecordBatch], *, url: str, shares: list[list[str]], max_position: int
) -> Iterator[pa.RecordBatch]:
    tally = ArmTally(max_position)
    for batch in read_batches(url, _files(numbers, shares), ARM_COLUMNS):
        tally.add(batch)
    yield tally.rows()


def _explode(
    numbers: Iterator[pa.RecordBatch], *, url: str, shares: list[list[str]], max_position: int
) -> Iterator[pa.RecordBatch]:
    for batch in read_batches(url, _files(numbers, shares), EXPOSURE_COLUMNS):
        yield exposure_batch(batch, max_position)


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
