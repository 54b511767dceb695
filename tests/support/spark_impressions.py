"""Impressions assembled into pages by Spark: the definition of `clicklog.impressions`."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from ulr.warehouse.schema import read_schema

_OF_PAGE = ("query_id", "segment", "bucket", "swapped")


def assemble_pages(rows: DataFrame) -> DataFrame:
    """Group impressions by session; copies of a row are dropped and counted in `repeats`."""
    return _pages(rows.where(_has_session())).unionByName(_orphans(rows.where(~_has_session())))


def _has_session() -> Column:
    return F.col("session_id").isNotNull() & (F.col("session_id") != "")


def _orphans(rows: DataFrame) -> DataFrame:
    """Return rows without a session id as one bad page each."""
    known = [c for c in rows.columns if c not in ("source", "problem", "raw", "repeats")]
    page = rows.withColumns(
        {
            "doc_ids": F.array("doc_id"),
            "clicks": F.array("clicked"),
            "problem": F.coalesce("problem", F.lit("null_session_id")),
            "raw": F.coalesce("raw", F.to_json(F.struct(*known))),
        }
    )
    return page.select(*read_schema.names)


def _pages(rows: DataFrame) -> DataFrame:
    shown = F.struct("position", "doc_id", "clicked")
    grouped = (
        rows.groupBy("session_id")
        .agg(
            *(F.min(name).alias(name) for name in _OF_PAGE),
            *(_disagrees(name).alias(f"two_{name}") for name in _OF_PAGE),
            F.min("shown_at").alias("shown_at"),
            F.min("source").alias("source"),
            F.max("problem").alias("bad_row"),
            F.max("raw").alias("bad_raw"),
            F.count("*").alias("rows"),
            F.array_sort(F.collect_list(shown)).alias("copies"),
        )
        .withColumn("shown", _once("copies"))
    )
    problem = _problem()
    pages = grouped.withColumns(
        {
            "doc_ids": F.col("shown.doc_id"),
            "clicks": F.col("shown.clicked"),
            "problem": problem,
            "raw": F.when(problem.isNotNull(), F.coalesce("bad_raw", F.to_json("shown"))),
            "repeats": (F.col("rows") - F.size("shown")).cast("int"),
        }
    )
    return pages.select(*read_schema.names)


def _once(name: str) -> Column:
    """Return a sorted array without repeated elements.

    collect_set is no alternative: past 128 sessions in a task it holds structs in two internal
    forms of Spark, which never compare equal (4.3).
    """
    before = F.col(name)
    return F.filter(name, lambda row, at: (at == 0) | ~row.eqNullSafe(F.get(before, at - F.lit(1))))


def _disagrees(name: str) -> Column:
    """Return whether a session's rows differ in a column; null is a value here."""
    nulls = F.count("*") - F.count(name)
    return (F.min(name) != F.max(name)) | ((nulls > 0) & (F.count(name) > 0))


def _problem() -> Column:
    """Return the reason why a session's rows form no page, or null."""
    positions = F.col("shown.position")
    no_position = F.exists(positions, lambda p: p.isNull())
    repeated = F.size(F.array_distinct(positions)) < F.size(positions)
    gap = positions != F.sequence(F.lit(1), F.size(positions))
    conflict = F.lit(False)
    for name in _OF_PAGE:
        conflict = conflict | F.coalesce(f"two_{name}", F.lit(False))
    return (
        F.when(F.col("bad_row").isNotNull(), F.col("bad_row"))
        .when(conflict, F.lit("conflicting_rows"))
        .when(no_position, F.lit("null_position"))
        .when(repeated, F.lit("duplicate_position"))
        .when(gap, F.lit("position_gap"))
    )
