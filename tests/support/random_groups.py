"""Groups with random clicks, as rows, as files, and published as the groups of a date."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.session_groups import group
from ulr.warehouse.schema import groups_schema


def random_groups(rng, count, *, positions=4, buckets=("1:2", "1:3", "1:4", None)):
    """Groups of a few queries whose documents are swapped or shuffled."""
    theta = np.arange(1, positions + 1) ** -1.0
    rows = []
    for i in range(count):
        bucket = buckets[i % len(buckets)]
        swapped = None if bucket is None else bool(rng.integers(2))
        clicks = rng.random((int(rng.integers(1, 30)), positions)) < 0.8 * theta
        row = group(
            clicks.astype(int).tolist(),
            query=f"q{i % 20}",
            segment=("desktop", "mobile")[i % 3 == 0],
            bucket=bucket,
            swapped=swapped,
        )
        row["doc_ids"] = [f"d{d}" for d in rng.permutation(positions)]
        row["ranking"] = i
        rows.append(row)
    return rows


def write_files(folder, rows, parts=3):
    files = []
    for part in range(parts):
        table = pa.Table.from_pylist(rows[part::parts], schema=groups_schema)
        files.append(str(folder / f"part-{part:05d}.parquet"))
        pq.write_table(table, files[-1])
    return files


def publish(house, date, rows, parts=1, fingerprint="x", **counts):
    """Publish rows as the groups of a date."""
    with house.writing("groups", f"dt={date}", fingerprint) as draft:
        write_files(Path(draft.url), rows, parts)
        draft.publish(counts)
