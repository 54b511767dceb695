"""Logs whose rankings change: at random, with the relevance from day to day, or with the user."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ulr.engine.columns import list_array
from ulr.propensity.document_pairs import REST, UNIT, pair_sums
from ulr.propensity.schema import HARVEST_SUMS, harvest_schema

POSITIONS = 6
THETA = 1 / np.arange(1, POSITIONS + 1)
WORLDS = ("random", "moving", "personal")


def rank_log(world, rng, *, queries=64, days=6, sessions=30):
    """Return clicks and positions, (queries, days, sessions, documents), of simulated pages."""
    shape = (queries, days, sessions, POSITIONS)
    relevance = rng.normal(-0.5, 1.0, (queries, 1, 1, POSITIONS))
    if world == "moving":  # from day to day, and the ranker follows
        relevance = relevance + rng.normal(0, 1.0, (queries, days, 1, POSITIONS))
    if world == "personal":
        relevance = relevance + rng.normal(0, 1.0, shape)
    score = relevance + rng.normal(0, 0.7, shape)
    position = np.argsort(np.argsort(-score, axis=3), axis=3)
    return rng.random(shape) < THETA[position] / (1 + np.exp(-relevance)), position


def harvest_of(clicks, position, *, blocks=16):
    """Return rows of `harvest_schema`; documents keep their number within the query."""
    queries, days, _, documents = clicks.shape
    query, day, _, document = np.indices(clicks.shape)
    cell = ((query * documents + document) * days + day) * POSITIONS + position
    size = queries * documents * days * POSITIONS
    shown = np.bincount(cell.ravel(), minlength=size).reshape(queries, -1)
    clicked = np.bincount(cell.ravel(), clicks.ravel(), size).reshape(shown.shape)
    row, at = np.nonzero(shown)
    entries = pa.StructArray.from_arrays(
        [
            pa.array(column)
            for column in (at // (days * POSITIONS), at // POSITIONS % days, at % POSITIONS + 1,
                           clicked[row, at].astype(int), shown[row, at])
        ],
        ["document", "day", "position", "clicks", "impressions"],
    )  # fmt: skip
    seen = list_array(np.bincount(row, minlength=queries), entries)
    number = (np.arange(queries) % blocks).astype(np.int32)
    batch = pa.record_batch(
        [pa.nulls(queries, pa.string()), pa.array(number), seen],
        names=["segment", "block", "seen"],
    )
    units = pa.Table.from_batches(pair_sums(iter([batch]), weight="pooled"))
    sums = [
        units[f"{name}_units"].to_numpy() / UNIT + units[f"{name}_rest"].to_numpy() / (UNIT * REST)
        for name in HARVEST_SUMS
    ]
    keys = [units[name] for name in ("segment", "block", "k", "l")]
    return pa.table([*keys, *map(pa.array, sums)], schema=harvest_schema)
