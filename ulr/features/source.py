"""The features that the settings name: files, or a table that Spark knows."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence

from pyspark.sql import SparkSession

from ulr.config.settings import Features
from ulr.features.files import FeatureFiles, find_features
from ulr.features.layout import FeatureLayout


def open_features(
    start_spark: Callable[[], SparkSession], features: Features, dates: Sequence[dt.date] = ()
) -> FeatureFiles:
    """Return the features of some dates; raise UserError if a column is missing or no number.

    dates: of the window, ascending; empty: the latest.
    """
    chosen = features.columns
    columns = tuple(chosen) if isinstance(chosen, list) else chosen
    layout = FeatureLayout(dict(features.keys), columns)
    by_day = features.as_of == "day"
    return find_features(features.path, layout, dates=dates, by_day=by_day)
