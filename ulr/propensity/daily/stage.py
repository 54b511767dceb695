"""Publish the tallies of dates that have none, and sum the tallies of a window.

The tables are stored beside the groups, also by a re-run in an overlay: they depend on no setting.
A date whose groups were published again is counted again.
"""

from __future__ import annotations

import datetime as dt
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.engine.interface import Engine
from ulr.errors import LockTaken
from ulr.propensity.daily.arms import cut_counts, sum_counts
from ulr.propensity.daily.moments import DocumentFile, moment_table
from ulr.propensity.daily.tasks import COUNTS, DOCUMENTS, Day, sum_window, tally_days
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.stage import publish_changed_partitions
from ulr.warehouse.tables import Warehouse
from ulr.warehouse.transaction import WriteTransaction

TABLES = ("swap_documents", "swap_counts")  # the order of their publication
DATES_AT_ONCE = 31  # per job
_READERS = 8  # threads that read small files
_RETRY_S, _RETRIES = 1.0, 120  # while another run tallies the same date


@dataclass(frozen=True)
class WindowTallies:
    """The published tallies of some dates. home: the warehouse that holds them."""

    home: Warehouse
    documents: list[Manifest]
    counts: list[Manifest]

    def swap_counts(self, max_position: int) -> pa.Table:
        """Return `swap_counts_schema` summed over the dates, without deeper clicks."""
        paths = [path for manifest in self.counts for path in self.home.paths(manifest)]
        with ThreadPoolExecutor(_READERS) as pool:
            tables = list(pool.map(self._read, paths))
        return cut_counts(sum_counts(tables), max_position)

    def moments(self, engine: Engine, *, blocks: int) -> pa.Table:
        """Return `moments_schema` over the documents of all dates."""
        files = [file for manifest in self.documents for file in self._files(manifest)]
        rows = sum(manifest.counts["rows"] for manifest in self.documents)
        storage = self.home.storage
        size = sum(file.size for file in storage.stat([file.path for file in files]))
        sums = sum_window(engine, storage.url, files, size=size, rows=rows, blocks=blocks)
        return moment_table(sums)

    def _read(self, path: str) -> pa.Table:
        with self.home.storage.fs.open_input_file(path) as source:
            return pq.ParquetFile(source).read(use_threads=False)

    def _files(self, manifest: Manifest) -> Iterator[DocumentFile]:
        for path in self.home.paths(manifest):
            number = int(path.rpartition("-")[2].removesuffix(".parquet"))
            yield DocumentFile(path, number, manifest.counts["parts"])


def build_tallies(engine: Engine, warehouse: Warehouse, dates: Sequence[dt.date]) -> WindowTallies:
    """Count the dates whose groups have no tallies yet; return those of all dates."""
    home = next(layer for layer in warehouse.layers() if layer.owns("groups"))
    manifests: list[list[Manifest]] = []
    for start in range(0, len(dates), DATES_AT_ONCE):
        manifests += _publish(engine, home, dates[start : start + DATES_AT_ONCE])
    documents, counts = (list(own) for own in zip(*manifests, strict=True))
    return WindowTallies(home, documents, counts)


def _publish(engine: Engine, home: Warehouse, dates: Sequence[dt.date]) -> list[list[Manifest]]:
    """Publish what is missing; wait if another run is writing the same date."""
    groups = {f"dt={date}": home.require("groups", f"dt={date}") for date in dates}

    def write(transactions: dict[str, list[WriteTransaction]]) -> None:
        days = []
        for partition, (documents, counts) in transactions.items():
            paths = home.paths(groups[partition])
            sizes = [file.size for file in home.storage.stat(paths)]
            days.append(Day(paths, sizes, counts.url, documents.url))
        rows = tally_days(engine, home.storage.url, days)
        for (documents, counts), day, own in zip(transactions.values(), days, rows, strict=True):
            documents.publish({"rows": own[DOCUMENTS], "parts": day.parts})
            counts.publish({"rows": own[COUNTS]})

    # The content, because groups that were rebuilt by force have the fingerprint of the old ones.
    inputs = {partition: {"groups": manifest.content} for partition, manifest in groups.items()}
    for retry in range(_RETRIES + 1):
        try:
            return list(publish_changed_partitions(home, TABLES, inputs, write=write).values())
        except LockTaken:
            if retry == _RETRIES:
                raise
            time.sleep(_RETRY_S)
    raise AssertionError("unreachable")
