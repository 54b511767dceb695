"""A few rows of every reason for which rows were set aside."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow.parquet as pq

from ulr.warehouse.schema import page_schema
from ulr.warehouse.tables import Manifest, Warehouse

EACH = 2
LENGTH = 300  # characters of a row that are shown
BATCH = 4096


def reasons_of(manifest: Manifest) -> dict[str, int]:
    """How many rows were set aside, by reason."""
    return {name[4:]: n for name, n in manifest.counts.items() if name.startswith("bad:")}


def examples_of(warehouse: Warehouse, dates: Sequence[str], each: int = EACH) -> list[dict]:
    """The first rows of every reason, the latest dates first; reading ends when all are found."""
    found: Counter[str] = Counter()
    examples = []
    for date in reversed(dates):
        manifest = warehouse.current("quarantine", f"dt={date}")
        wanted = {r for r in reasons_of(manifest) if found[r] < each} if manifest else set()
        for row in _rows(warehouse, f"dt={date}") if wanted else ():
            if found[row["reason"]] < each:
                found[row["reason"]] += 1
                examples.append({"date": date, "reason": row["reason"], "row": _shown(row),
                                 "source": _file(row["source"])})  # fmt: skip
                if all(found[r] >= each for r in wanted):
                    break
    return sorted(examples, key=lambda e: e["reason"])


def _rows(warehouse: Warehouse, partition: str) -> Iterator[dict[str, Any]]:
    for path in warehouse.files("quarantine", partition):
        with warehouse.storage.fs.open_input_file(path) as stream:
            for batch in pq.ParquetFile(stream).iter_batches(BATCH):
                yield from batch.to_pylist()


def _shown(row: dict[str, Any]) -> str:
    """The source text where the row could not be typed, else its columns that are not null."""
    content = {n: row[n] for n in page_schema.names if row[n] is not None}
    text = row["raw"] or json.dumps(content, default=str, ensure_ascii=False)
    return text if len(text) <= LENGTH else f"{text[:LENGTH]} …"


def _file(source: str | None) -> str:
    """The last two names of a path are enough to find it."""
    return "/".join((source or "").rsplit("/", 2)[-2:])
