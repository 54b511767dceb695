"""Seconds to count swap arms in a groups table, and of a plain Spark scan of the same columns.

Goal: counting takes at most twice as long as the scan.

    python -m tests.bench.propensities [MILLIONS_OF_PATTERNS]
"""

from __future__ import annotations

import sys
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ulr.config.load import load_settings
from ulr.engine.session import start_session
from ulr.propensity.tally import ARM_COLUMNS
from ulr.propensity.tasks import count_swaps
from ulr.warehouse.schema import groups_schema

FILES = 16
PATTERNS_PER_GROUP = 2
POSITIONS = 10
BUCKETS = [None] * 9 + [f"1:{k}" for k in range(2, POSITIONS + 1)]
ROUNDS = 6


def groups_table(rng: np.random.Generator, groups: int, first: int) -> pa.Table:
    """Return groups of ten positions with few clicks and two distinct patterns per group."""
    clicks = rng.random((groups * PATTERNS_PER_GROUP, POSITIONS)) < 0.5 / np.arange(1, 11)
    words = (clicks << np.arange(POSITIONS)).sum(axis=1).reshape(groups, PATTERNS_PER_GROUP)
    words[:, 1] += words[:, 0] == words[:, 1]
    offsets = pa.array(np.arange(groups + 1, dtype=np.int32) * PATTERNS_PER_GROUP)
    documents = pa.array(np.arange(POSITIONS)).cast(pa.string())
    documents = documents.take(pa.array(np.tile(np.arange(POSITIONS), groups)))
    bucket = rng.integers(0, len(BUCKETS), groups)
    swapped = pa.array(rng.random(groups) < 0.5, mask=bucket < 9)
    columns = {
        "query_id": pa.array(np.arange(first, first + groups)).cast(pa.string()),
        "segment": pa.array(["desktop", "mobile"]).take(pa.array(rng.integers(0, 2, groups))),
        "bucket": pa.array(BUCKETS, pa.string()).take(pa.array(bucket)),
        "swapped": swapped,
        "ranking": pa.array(rng.integers(-(2**62), 2**62, groups)),
        "doc_ids": pa.ListArray.from_arrays(
            pa.array(np.arange(groups + 1, dtype=np.int32) * POSITIONS), documents
        ),
        "patterns": pa.ListArray.from_arrays(offsets, pa.array(np.sort(words).reshape(-1))),
        "counts": pa.ListArray.from_arrays(
            offsets, pa.array(rng.integers(1, 40, groups * PATTERNS_PER_GROUP))
        ),
    }
    return pa.table(columns, schema=groups_schema)


def write_groups(folder: str, patterns: int) -> list[str]:
    """Write the files of a groups table as the warehouse does."""
    rng = np.random.default_rng(0)
    groups = patterns // PATTERNS_PER_GROUP // FILES
    files = [f"{folder}/part-{i:05d}.parquet" for i in range(FILES)]
    for i, file in enumerate(files):
        table = groups_table(rng, groups, i * groups)
        pq.write_table(table, file, compression="zstd", compression_level=1, row_group_size=131_072)
    return files


def best_of(*works) -> list[float]:
    """Return the best seconds of each; runs alternate after a warm-up, the machine may be busy."""
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(1 + ROUNDS):
        for work, times in zip(works, seconds, strict=True):
            start = time.perf_counter()
            work()
            times.append(time.perf_counter() - start)
    return [min(times[1:]) for times in seconds]


def main(patterns: int) -> None:
    spark = start_session("bench", load_settings(None, []).spark)
    with tempfile.TemporaryDirectory() as folder:
        files = write_groups(folder, patterns)
        columns = spark.read.parquet(*files).select(*ARM_COLUMNS)
        scan, count = best_of(
            lambda: columns.write.format("noop").mode("overwrite").save(),
            lambda: count_swaps(spark, folder, files, max_position=50),
        )
    print(f"{patterns:,} patterns: Spark scan {scan:.2f} s, counting {count:.2f} s")
    print(f"counting / scan = {count / scan:.2f} (goal: at most 2)")
    spark.stop()


if __name__ == "__main__":
    main(int(float(sys.argv[1]) * 1e6) if len(sys.argv) > 1 else 10_000_000)
