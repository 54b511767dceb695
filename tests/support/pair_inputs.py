"""A few groups with features, the inputs of a small pair table."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa

from tests.support.pair_samples import independent_propensities
from ulr.features.files import find_features
from ulr.features.stage import WindowTable
from ulr.features.tasks import WindowFiles, write_window
from ulr.warehouse.schema import features_schema, groups_schema
from ulr.warehouse.storage import Storage

THETA = np.array([1.0, 0.5, 0.25, 0.2])
EXAMINATION = replace(
    independent_propensities(THETA), stop_probability=0.3, continue_probability=0.8
)


def group(query, docs, patterns, segment=None, bucket=None):
    """A row of the groups table. patterns: {clicked positions from 1: sessions}."""
    words = {sum(1 << (k - 1) for k in clicked): n for clicked, n in patterns.items()}
    return {
        "query_id": query, "segment": segment, "bucket": bucket, "swapped": bucket and False,
        "ranking": hash(tuple(docs)) % 2**62, "doc_ids": docs,
        "patterns": sorted(words), "counts": [words[w] for w in sorted(words)],
    }  # fmt: skip


def groups_of(*rows):
    return pa.Table.from_pylist(list(rows), schema=groups_schema)


def features_of(names, label=1):
    rows = [
        {"query_id": q, "doc_id": d, "features": [float(n), -float(n)], "label": (n + label) % 3}
        for n, (q, d) in enumerate(names)
    ]
    return pa.Table.from_pylist(rows, schema=features_schema)


GROUPS = groups_of(
    group("b", ["x", "y", "z"], {(): 5, (1,): 3, (2, 3): 2}),
    group("a", ["x", "y"], {(2,): 4}),
    group("b", ["z", "x", "y"], {(1,): 1, (1, 2): 6}),
    group("b", ["x", "y", "z"], {(1,): 1}, bucket="1:2"),
    group("c", ["x"], {(1,): 9}),
)
FEATURES = features_of([("b", "z"), ("b", "y"), ("b", "x"), ("a", "x"), ("a", "y"), ("c", "x")])


def write_window_inputs(root):
    """Write groups of two dates and features in two files; return them, and all groups."""
    more = groups_of(group("a", ["y", "x"], {(1,): 2}), group("b", ["x", "y", "z"], {(3,): 1}))
    urls = f"{root}/groups", f"{root}/features"
    parts = (GROUPS, more), (FEATURES.slice(0, 2), FEATURES.slice(2))
    for url, tables in zip(urls, parts, strict=True):
        for name, table in zip(("one", "two"), tables, strict=True):
            Storage(url).write_table(table, f"{name}.parquet")
    files = Storage(urls[0]).stat([f"{urls[0]}/{name}.parquet" for name in ("one", "two")])
    inputs = WindowFiles(urls[0], files, find_features(urls[1]))
    return inputs, pa.concat_tables([GROUPS, more])


def gather(engine, inputs, url, partitions):
    """Write a window of the inputs and return it."""
    write_window(engine, inputs, url=url, partitions=partitions)
    return WindowTable(url, [f"{url}/{file.path}" for file in Storage(url).files()])
