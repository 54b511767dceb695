"""The features that the settings name: files, or a table that only one engine can read."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import pyarrow as pa

from ulr.config.inputs import Features
from ulr.engine.interface import Batches, Engine, Items, Shared, Source
from ulr.engine.interface import Rows as EngineRows
from ulr.errors import UserError
from ulr.features.files import NAMES, FeatureFiles, FeaturePart, find_features
from ulr.features.layout import FeatureLayout, day_field, valid_names
from ulr.features.logged import open_logged
from ulr.features.reading import read_features
from ulr.warehouse.tables import Warehouse

Result = TypeVar("Result")
# Tables of rows, each with its place among all; rows of one place have no order.
Rows = Iterator[tuple[int, pa.Table]]


@dataclass(frozen=True)
class FeatureTable:
    """The rows of a table that are read, of the dates that are read.

    frame: the engine's own. identity: a JSON value that changes with the rows. size: bytes, about.
    by_day: rows are read with their day.
    """

    frame: Any
    where: str
    layout: FeatureLayout
    identity: Any
    size: int
    by_day: bool

    def names(self) -> list[str]:
        """Return the names of the features; empty if neither columns nor metadata have them."""
        column = self.layout.column("features")
        if self.layout.columns is None and column in self.frame.columns:
            return valid_names(self.frame.schema[column].metadata.get(NAMES, []), self.where)
        return self.layout.names


FeatureSource = FeatureFiles | FeatureTable


def open_features(
    engine: Engine,
    warehouse: Warehouse,
    features: Features,
    dates: Sequence[dt.date] = (),
) -> FeatureSource:
    """Return the features of some dates; raise UserError if a column is missing or is no number.

    dates: of the window, ascending; empty: the latest. The warehouse is read for features of the
    log only.
    """
    chosen = features.columns
    columns = tuple(chosen) if isinstance(chosen, list) else chosen
    layout = FeatureLayout({str(name): own for name, own in features.keys.items()}, columns)
    by_day = features.as_of == "day"
    if features.source == "log":
        return open_logged(warehouse, dates, by_day=by_day)
    if features.table is None:
        return find_features(features.path, layout, dates=dates, by_day=by_day)
    if engine.name != "spark":
        raise UserError(
            "features.table is read by Spark: --set engine=spark (pip install 'ulr[spark]', and "
            "Java), or files in features.path"
        )
    spark_table = import_module("ulr.features.spark_table")
    table: FeatureTable = spark_table.open_table(engine, features.table, layout, dates, by_day)
    return table


def feature_rows(
    features: FeatureSource,
    function: Callable[[Rows], Iterator[Result]],
    *,
    shown: Shared | None = None,
) -> tuple[Source, Callable[[Any], Iterator[Result]]]:
    """Return the rows of features as a source, and a function of them as one of its tasks.

    function: gets tables with `features_schema`; rows by day have a further column `day_field`.
    shown: the queries to read, as ShownQueries.
    """
    if isinstance(features, FeatureTable):
        read = partial(
            _of_batches,
            function=function,
            layout=features.layout,
            where=features.where,
            by_day=features.by_day,
            shown=shown,
        )
        return EngineRows(features.frame), read
    parts = features.parts()
    of_parts = partial(
        _of_parts, function=function, features=features, names=features.names(), shown=shown
    )
    return Items(parts, [part.size for part in parts]), of_parts


def _of_parts(
    parts: list[FeaturePart],
    *,
    function: Callable[[Rows], Iterator[Result]],
    features: FeatureFiles,
    names: Sequence[str],
    shown: Shared | None,
) -> Iterator[Result]:
    only = None if shown is None else shown.value

    def rows() -> Rows:
        for part in parts:
            for number, table in enumerate(read_features(features, part, names, only)):
                yield (part.file << 40) + (part.k << 20) + number, table

    return function(rows())


def _of_batches(
    batches: Batches,
    *,
    function: Callable[[Rows], Iterator[Result]],
    layout: FeatureLayout,
    where: str,
    by_day: bool,
    shown: Shared | None,
) -> Iterator[Result]:
    def rows() -> Rows:
        for batch in batches:
            table = layout.rows(batch, where)
            if by_day:
                days = pa.array(layout.days(batch, where), pa.int32())
                table = table.append_column(day_field, days)
            if shown is not None:
                table = table.filter(pa.array(shown.value.contains(table["query_id"])))
            yield 0, table

    return function(rows())
