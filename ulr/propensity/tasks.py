"""The counting passes on Spark: from files of the groups table to small tables of counts.

Spark hands out files; a task reads the columns it needs with pyarrow, which is faster than moving
lists out of the JVM, and counts with numba. `files` are paths on the filesystem of `url`. Groups
need not be merged over dates, because counts add.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from ulr.engine.failures import reraise_user_errors
from ulr.engine.session import spark_schema
from ulr.errors import UserError
from ulr.features.matrix import feature_matrix
from ulr.groups.window import groups_files
from ulr.propensity import tally
from ulr.propensity.exposures import Exposures
from ulr.propensity.swap_counts import counts_of
from ulr.warehouse.schema import (
    exposures_schema,
    harvest_schema,
    moments_schema,
    swap_counts_schema,
)
from ulr.warehouse.tables import Warehouse

Batches = Iterator[pa.RecordBatch]

FEW_TASKS = 64
DOCUMENT = ["query_id", "doc_id"]


def count_swaps(
    spark: SparkSession, url: str, files: Sequence[str], *, max_position: int
) -> pa.Table:
    """Return click and co-click totals per (segment, bucket, arm): `swap_counts_schema`."""
    count = partial(tally.count_arms, max_position=max_position)
    sums = _map_files(spark, url, files, count, swap_counts_schema)
    keys = swap_counts_schema.names[:-1]
    if _tasks(spark, files) > FEW_TASKS:  # too many partial sums for the driver
        sums = sums.groupBy(*keys).agg(F.sum("sessions").alias("sessions"))
    total = sums.toArrow().group_by(keys).aggregate([("sessions", "sum")])
    return total.rename_columns(swap_counts_schema.names).cast(swap_counts_schema)


@reraise_user_errors()
def plain_rates(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    *,
    positions: int,
) -> tuple[np.ndarray, int]:
    """Return co-click rates of unswapped pages, click rates on the diagonal; and all pages."""
    files = groups_files(warehouse, dates)
    rows = count_swaps(start_spark(), warehouse.storage.url, files, max_position=positions)
    arm = counts_of(rows, positions).unswapped()
    pages = pc.sum(rows.filter(pc.equal(rows["l"], 0))["sessions"]).as_py() or 0
    return arm.co_clicks / max(arm.sessions, 1), pages


def count_exposures(
    spark: SparkSession, url: str, files: Sequence[str], *, max_position: int
) -> DataFrame:
    """Return clicks and impressions of each document by position, segment and bucket."""
    count = partial(tally.count_exposures, max_position=max_position)
    rows = _map_files(spark, url, files, count, exposures_schema)
    return _sum_exposures(rows, "segment", "bucket", *DOCUMENT, "position")


def _sum_exposures(rows: DataFrame, *keys: str) -> DataFrame:
    columns = ("clicks", "impressions")
    return rows.groupBy(*keys).agg(*(F.sum(name).alias(name) for name in columns))


def harvest_table(shown: DataFrame, *, blocks: int, weight: str) -> pa.Table:
    """Return position x position counts of documents seen at several positions: `harvest_schema`.

    A document with n impressions at k and m at l is one stratum. Its weight is n m / (n + m) for
    `pooled` (Mantel-Haenszel: a document shown once at l has little weight) and 1 for `document`
    (Agarwal et al. 2019).
    """
    keys = ["segment", *DOCUMENT]
    seen = F.collect_list(F.struct("position", "clicks", "impressions")).alias("seen")
    moved = _sum_exposures(shown, *keys, "position").groupBy(*keys).agg(seen)
    moved = moved.where(F.size("seen") > 1)
    one = moved.select("segment", _block(blocks), "seen", F.explode("seen").alias("a"))
    two = one.select("segment", "block", "a", F.explode("seen").alias("b"))
    n, m = F.col("a.impressions"), F.col("b.impressions")
    stratum = n * m / (n + m) if weight == "pooled" else F.lit(1.0)
    pairs = two.where("a.position != b.position").select(
        "segment",
        "block",
        F.col("a.position").alias("k"),
        F.col("b.position").alias("l"),
        (stratum * F.col("a.clicks") / n).alias("clicks"),
        stratum.alias("impressions"),
    )
    total = pairs.groupBy("segment", "block", "k", "l").agg(
        _exact_sum(F.col("clicks")).alias("clicks"),
        _exact_sum(F.col("impressions")).alias("impressions"),
        F.count("*").alias("documents"),
    )
    return _sorted(total.toArrow().cast(harvest_schema), ["segment", "block", "k", "l"])


def moment_table(shown: DataFrame, *, blocks: int) -> pa.Table:
    """Return the moments for a regression of position-k on position-1 rates: `moments_schema`.

    x and y are the rates of a document at the first and the second position of a bucket. Powers of
    x are factorial moments, c (c - 1) ... / (n (n - 1) ...): unbiased for powers of the true rate,
    where plain powers of the observed rate would bias the slope towards 0.
    """
    single = shown.where(F.col("bucket").rlike(r"^\d+:\d+$"))
    ends = F.split("bucket", ":")
    first, second = ends[0].cast("int"), ends[1].cast("int")
    sums = {
        "c": ("clicks", first), "n": ("impressions", first),
        "d": ("clicks", second), "m": ("impressions", second),
    }  # fmt: skip
    documents = single.groupBy("segment", "bucket", *DOCUMENT).agg(
        *(
            F.sum(F.when(F.col("position") == position, F.col(column)).otherwise(0)).alias(name)
            for name, (column, position) in sums.items()
        )
    )
    powers = [F.lit(1.0)]
    for i in range(4):
        powers.append(powers[-1] * (F.col("c") - i) / (F.col("n") - i))
    w, y = F.col("n") * F.col("m") / (F.col("n") + F.col("m")), F.col("d") / F.col("m")
    moments = [_exact_sum(w * x).alias(f"x{p}") for p, x in enumerate(powers)]
    moments += [_exact_sum(w * x * y).alias(f"x{p}y") for p, x in enumerate(powers[:3])]
    table = documents.where("n > 3 AND m > 0").groupBy("segment", "bucket", _block(blocks))
    total = table.agg(F.count("*").alias("documents"), *moments).toArrow().cast(moments_schema)
    return _sorted(total, ["segment", "bucket", "block"])


def em_exposures(
    spark: SparkSession, shown: DataFrame, *, queries: int, blocks: int, features: str | None
) -> Exposures:
    """Return the exposures of at most `queries` queries, sampled by hash, for regression-EM.

    features: URL of a features table; without one, documents have no features.
    """
    hashed = F.xxhash64("query_id")
    sampled = shown.select("query_id").distinct().orderBy(hashed).limit(queries)
    rows = shown.join(sampled, on="query_id", how="left_semi")
    rows = _sum_exposures(rows, *DOCUMENT, "position")
    documents = rows.select(*DOCUMENT).distinct()
    if features:
        known = spark.read.parquet(features).groupBy(*DOCUMENT).agg(F.min("features"))
        documents = documents.join(known.toDF(*DOCUMENT, "features"), on=DOCUMENT, how="inner")
    table = documents.withColumn("block", _block(blocks)).orderBy(*DOCUMENT).toArrow()
    if not table.num_rows:
        raise UserError(
            f"regression_em.features: {features} has no row for any of the documents shown"
        )
    number = table.select(DOCUMENT).append_column("n", pa.array(np.arange(table.num_rows)))
    entries = rows.toArrow().join(number, keys=DOCUMENT, join_type="inner")
    entries = entries.sort_by([("n", "ascending"), ("position", "ascending")])  # order of sums
    return Exposures(
        entries["n"].to_numpy(),
        entries["position"].to_numpy() - 1,
        entries["clicks"].to_numpy().astype(float),
        entries["impressions"].to_numpy().astype(float),
        table["block"].to_numpy(),
        feature_matrix(table) if features else None,
    )


def _block(blocks: int) -> Column:
    """Return the block of a query in a jackknife."""
    return F.pmod(F.xxhash64("query_id"), F.lit(blocks)).cast("int").alias("block")


def _exact_sum(x: Column) -> Column:
    """Return a sum whose last bits do not depend on the order of rows, by adding integers.

    x is split into units of 2^-20 and a rest in units of 2^-56.
    """
    units = F.floor(x * F.lit(2.0**20))
    rest = F.round((x * F.lit(2.0**20) - units) * F.lit(2.0**36)).cast("long")
    return F.sum(units) / F.lit(2.0**20) + F.sum(rest) / F.lit(2.0**56)


def _sorted(table: pa.Table, keys: list[str]) -> pa.Table:
    """Return the rows sorted by keys, because the driver sums segments in row order."""
    return table.sort_by([(key, "ascending") for key in keys])


def _map_files(
    spark: SparkSession,
    url: str,
    files: Sequence[str],
    count: Callable[[str, list[str]], Batches],
    schema: pa.Schema,
) -> DataFrame:
    """Return the rows of `count` over all files, which are divided among the tasks."""
    if not files:
        raise UserError(
            "the groups of these dates contain no page; give other dates, or see the table "
            "`quarantine`"
        )
    tasks = _tasks(spark, files)
    work = [list(files[i::tasks]) for i in range(tasks)]
    run = partial(_run, url=url, work=work, count=count)
    return spark.range(0, tasks, 1, tasks).mapInArrow(run, spark_schema(schema))


def _tasks(spark: SparkSession, files: Sequence[str]) -> int:
    """Return one task per core: a Python task takes 0.2 s to start."""
    return min(len(files), spark.sparkContext.defaultParallelism)


def _run(
    numbers: Batches, *, url: str, work: list[list[str]], count: Callable[[str, list[str]], Batches]
) -> Batches:
    for batch in numbers:
        for number in batch.column(0).to_pylist():
            yield from count(url, work[number])
