"""What a table of features has, in one line."""

from __future__ import annotations

from collections import Counter
from importlib import import_module
from itertools import islice

from ulr.features.files import LETOR_SUFFIXES, schema_of
from ulr.features.reading import read_features
from ulr.features.source import FeatureSource, FeatureTable

_NAMES_SHOWN = 5


def describe_features(source: FeatureSource) -> str:
    """Return the number, names and types of the features, after reading the first rows."""
    names = source.names()
    if isinstance(source, FeatureTable):
        to_arrow = import_module("ulr.engine.spark.versions").to_arrow
        batches = to_arrow(source.frame.limit(1)).to_batches()
        rows = [source.layout.rows(batch, source.where) for batch in batches if batch.num_rows]
        types = dict(source.frame.dtypes)
    else:
        rows = list(islice(read_features(source, source.parts()[0], names), 1))
        types = _types(source.url, source.where)
    width = len(rows[0]["features"][0]) if rows and rows[0].num_rows else len(names)
    shown = ", ".join(names[:_NAMES_SHOWN]) + (", ..." if len(names) > _NAMES_SHOWN else "")
    if isinstance(source.layout.columns, tuple):
        kinds = Counter(types[name] for name in source.layout.columns)
        kind = "columns of " + ", ".join(sorted(kinds))
    else:
        kind = f"numbers in {source.layout.column('features')}"
    named = f": {shown}" if names else ", without names"
    return f"{source.where} has {width} features, {kind}{named}"


def _types(url: str, path: str) -> dict[str, str]:
    if path.endswith(LETOR_SUFFIXES):
        return {}
    return {field.name: str(field.type) for field in schema_of(url, path)}
