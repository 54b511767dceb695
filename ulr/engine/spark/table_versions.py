"""The version of a table: a Delta version, an Iceberg snapshot, or the files of a plan.

A version identifies the rows, for fingerprints. Delta and Iceberg tables are read as of it, so that
every pass reads the same rows. Of other tables, the files that a condition leaves identify them. A
table without either has to be kept or read once.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from ulr.engine.interface import TEXT_BYTES
from ulr.engine.spark.versions import JVM_ERRORS

_UNKNOWN: tuple[type[Exception], ...] = (PySparkException, *JVM_ERRORS, AttributeError)
_FILE = re.compile(
    r"FileStatus\{path=(?P<path>.*?); isDirectory=false; length=(?P<size>\d+);"
    r".*?modification_time=(?P<time>\d+)"
)
# Leaves of a plan whose rows are in the plan itself.
_CONSTANT = {"LocalTableScanExec", "OneRowRelationExec", "RangeExec"}
# The listing of other formats, such as Delta, does not show rows that were deleted in a file.
_OWN_INDEX = "org.apache.spark.sql.execution.datasources."
_TEXT_FORMATS = {"json", "csv", "text", "xml"}
_UNKNOWN_BYTES = 1 << 50  # Spark's estimate for a relation without statistics is larger


@dataclass(frozen=True)
class VersionedFrame:
    """Rows of one version of a table.

    identity: a JSON value that changes with the rows, None if unknown. pinned: the frame reads this
    version also if the table changes.
    """

    frame: DataFrame
    identity: list[Any] | None
    pinned: bool


def pin_version(spark: SparkSession, name: str, frame: DataFrame) -> VersionedFrame:
    """Return the current version of a table, given its frame; files are not listed for it."""
    details = _details(spark, name)
    version = None
    if details.get("Provider", "").lower() == "delta":
        version = _delta_version(spark, name)
    elif snapshot := _iceberg_snapshot(details):
        version = ["iceberg", snapshot]
    if version is None:
        return VersionedFrame(frame, None, pinned=False)
    try:
        pinned = spark.sql(f"SELECT * FROM {name} VERSION AS OF {version[-1]}")
    except _UNKNOWN:
        return VersionedFrame(frame, None, pinned=False)
    return VersionedFrame(pinned, version, pinned=True)


def files_of(frame: DataFrame) -> list[Any] | None:
    """Return path, size and time of every file that a plan reads; None if it reads other sources.

    Partitions that a condition leaves out are not among them.
    """
    scans = _scans(frame)
    if scans is None:
        return None
    files = [list(file) for scan in scans for file in scan.files]
    return ["files", sorted(files)] if files else None


def estimated_bytes(frame: DataFrame) -> int | None:
    """Return about how many bytes a plan reads, as compressed Parquet; None if it is unknown.

    Of files it is their size without partitions that a condition leaves out, else Spark's estimate.
    """
    if (scans := _scans(frame)) is not None:
        return sum(scan.bytes for scan in scans)
    try:
        plan: Any = frame._jdf.queryExecution().optimizedPlan()
        leaves = plan.collectLeaves()
        sizes = [int(str(leaves.apply(at).stats().sizeInBytes())) for at in range(leaves.size())]
    except _UNKNOWN:
        return None
    return sum(sizes) if sum(sizes) < _UNKNOWN_BYTES else None


def relations_in(spark: SparkSession, query: str) -> set[str] | None:
    """Return the names of the tables and views that a query reads; None if they are unknown."""
    try:
        jspark: Any = spark._jsparkSession
        plan = jspark.sessionState().sqlParser().parsePlan(query).toString()
    except _UNKNOWN:
        return None
    names = {n.replace(", ", ".") for n in re.findall(r"'UnresolvedRelation \[([^\]]*)\]", plan)}
    local = {n for ctes in re.findall(r"CTE \[([^\]]*)\]", plan) for n in ctes.split(", ")}
    return names - local


def _details(spark: SparkSession, name: str) -> dict[str, str]:
    """Return the detailed information on a table by name, or nothing for a catalog without it."""
    try:
        rows = spark.sql(f"DESCRIBE TABLE EXTENDED {name}").collect()
    except _UNKNOWN:
        return {}
    return {row["col_name"]: row["data_type"] or "" for row in rows}


def _delta_version(spark: SparkSession, name: str) -> list[Any] | None:
    try:
        table = spark.sql(f"DESCRIBE DETAIL {name}").select("id").first()
        last = spark.sql(f"DESCRIBE HISTORY {name} LIMIT 1").select("version").first()
    except _UNKNOWN:
        return None
    return ["delta", table["id"], int(last["version"])] if table and last else None


def _iceberg_snapshot(details: dict[str, str]) -> str | None:
    match = re.search(r"current-snapshot-id=(\d+)", details.get("Table Properties", ""))
    return match[1] if match else None


@dataclass(frozen=True)
class _Scan:
    """The files that a leaf of a plan reads: path, size and time of each."""

    files: list[tuple[str, int, int]]
    text: bool

    @property
    def bytes(self) -> int:
        size = sum(size for _, size, _ in self.files)
        return size // TEXT_BYTES if self.text else size


def _scans(frame: DataFrame) -> list[_Scan] | None:
    """Return the scans of a plan; None if it reads anything but files and constants."""
    try:
        execution: Any = frame._jdf.queryExecution()
        if "subquery" in execution.optimizedPlan().toString():
            return None
        leaves = execution.sparkPlan().collectLeaves()
        found = [_scan_of(leaves.apply(at)) for at in range(leaves.size())]
    except _UNKNOWN:
        return None
    scans = [scan for scan in found if scan is not None]
    return scans if len(scans) == len(found) else None


def _scan_of(leaf: Any) -> _Scan | None:
    kind = leaf.getClass().getSimpleName()
    if kind in _CONSTANT:
        return _Scan([], text=False)
    if kind != "FileSourceScanExec":
        return None
    relation = leaf.relation()
    if not relation.location().getClass().getName().startswith(_OWN_INDEX):
        return None
    listing = relation.location().listFiles(leaf.partitionFilters(), leaf.dataFilters())
    matches = _FILE.finditer(listing.mkString("\n"))
    files = [(m["path"], int(m["size"]), int(m["time"])) for m in matches]
    return _Scan(files, relation.fileFormat().toString().lower() in _TEXT_FORMATS)
