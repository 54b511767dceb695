"""The table `window`: the groups of some dates joined with features, gathered once and shared.

Pairs of every method, the prior on co-clicks, evaluation and re-runs read it partition by
partition, without a shuffle. It is a cache: every stage gathers it again if it is missing.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, Literal

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.engine.interface import Batches, Engine, Items, partitions_for
from ulr.features.source import FeatureSource
from ulr.features.split import Split, in_split
from ulr.features.tasks import WindowFiles, write_window
from ulr.groups.levels import window_levels
from ulr.groups.window import groups_files, groups_fingerprints
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.schema import SCHEMA_VERSION
from ulr.warehouse.stage import publish_if_changed
from ulr.warehouse.tables import Warehouse
from ulr.warehouse.transaction import WriteTransaction

TABLE = "window"
Use = Literal["train", "test"]
_USES = ("use=train", "use=test")


@dataclass(frozen=True)
class WindowInputs:
    """Dates whose groups are joined with a features table.

    use: the partition to publish; windows of both uses are shared where they are the same.
    partitions: files of the window; None: chosen from the bytes of its inputs.
    """

    warehouse: Warehouse
    dates: Sequence[dt.date]
    features: FeatureSource
    use: Use = "train"
    partitions: int | None = None

    @cached_property
    def fingerprints(self) -> dict[str, Any]:
        """Fingerprints of the groups, and the identity of the features."""
        inputs: dict[str, Any] = {
            "groups": groups_fingerprints(self.warehouse, self.dates),
            "features": self.features.identity,
        }
        if names := self.features.names():
            inputs["feature_names"] = names
        return inputs

    @cached_property
    def levels(self) -> tuple[str, ...]:
        """The levels of feedback of the window, lowest first."""
        return window_levels(self.warehouse, self.dates)


@dataclass(frozen=True)
class WindowTable:
    """Published files of a window, one per partition, on the filesystem of `url`."""

    url: str
    files: Sequence[str]

    def map(
        self,
        engine: Engine,
        function: Callable[[str, pa.Table], Batches],
        *,
        split: Split = "all",
        test_fraction: float = 0.0,
        columns: Sequence[str] | None = None,
    ) -> list[pa.RecordBatch]:
        """Run a function on the name and the queries of each file, in the order of the files.

        split: which queries to read. columns: of `window_schema`, with query_id; None: all.
        """
        read = partial(_read, function=function, url=self.url, split=split,
                       test_fraction=test_fraction, columns=columns)  # fmt: skip
        return engine.map(Items(self.files), read)


def gather_window(engine: Engine, inputs: WindowInputs, *, force: bool = False) -> WindowTable:
    """Return the window of these inputs; gather and publish it unless that has been done."""
    if not force and (published := _published(inputs)):
        return published
    warehouse, fingerprints = inputs.warehouse, inputs.fingerprints
    files = WindowFiles(
        warehouse.storage.url,
        warehouse.storage.stat(groups_files(warehouse, inputs.dates)),
        inputs.features,
        inputs.levels,
    )
    partitions = inputs.partitions or partitions_for(files.size)
    engine.admit(files.size, "the groups and features of this window")

    def write(table: WriteTransaction) -> None:
        counts = write_window(engine, files, url=table.url, partitions=partitions)
        table.publish(counts)

    outcome, _ = publish_if_changed(
        warehouse,
        TABLE,
        f"use={inputs.use}",
        inputs=fingerprints,
        settings={"partitions": partitions},
        write=write,
        force=True,
    )
    return _table(warehouse, outcome.manifest)


def repair_window(engine: Engine, inputs: WindowInputs) -> None:
    """Gather the published window of these inputs again if it is damaged.

    For a stage that is unchanged and does not read it: other stages and re-runs may.
    """
    if any(warehouse.damage(manifest) for warehouse, manifest in _matching(inputs)):
        gather_window(engine, inputs)


def _published(inputs: WindowInputs) -> WindowTable | None:
    """Return a window with the same content in this warehouse or in one that it is based on."""
    for warehouse, manifest in _matching(inputs):
        if not warehouse.damage(manifest):
            return _table(warehouse, manifest)
    return None


def _matching(inputs: WindowInputs) -> Iterator[tuple[Warehouse, Manifest]]:
    """Yield the published windows of these inputs, also those of the warehouses below."""
    for warehouse in inputs.warehouse.layers():
        for use in _USES:
            manifest = warehouse.current(TABLE, use)
            if (
                manifest is not None
                and manifest.schema_version == SCHEMA_VERSION
                and manifest.inputs == inputs.fingerprints
                and inputs.partitions in (None, manifest.settings["partitions"])
            ):
                yield warehouse, manifest


def _table(warehouse: Warehouse, manifest: Manifest) -> WindowTable:
    return WindowTable(warehouse.storage.url, warehouse.files(TABLE, manifest.partition))


def _read(
    files: list[str],
    *,
    function: Callable[[str, pa.Table], Batches],
    url: str,
    split: Split,
    test_fraction: float,
    columns: Sequence[str] | None,
) -> Batches:
    fs, _ = open_filesystem(url)
    for path in files:
        table = pq.read_table(path, columns=columns, filesystem=fs, use_threads=False)
        chosen = in_split(table["query_id"], test_fraction, split)
        kept = table if chosen.all() else table.filter(pa.array(chosen))
        if kept.num_rows:
            yield from function(path.rpartition("/")[2], kept.combine_chunks())
