"""Clicks and sessions of documents, joined with how likely their positions are examined."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.engine.columns import hashes, list_array, offsets_and_values, whole
from ulr.kernels.layout import Ragged
from ulr.kernels.merge import group_keys
from ulr.kernels.relevance import ShownCounts
from ulr.propensity.examination import Examination

_LEAST = 1e-6  # alpha of a position whose estimate is lower, as by an affine fit to few clicks
DOCUMENT = ("query_id", "doc_id")
CELL = ("segment", "position", "clicks", "impressions")
# A document with its clicks and impressions by segment and position.
shown_schema = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in DOCUMENT),
        pa.field(
            "cells",
            pa.list_(
                pa.struct(
                    [
                        pa.field("segment", pa.string()),
                        pa.field("position", pa.int32()),
                        pa.field("clicks", pa.int64()),
                        pa.field("impressions", pa.int64()),
                    ]
                )
            ),
        ),
    ]
)


@dataclass(frozen=True)
class Curves:
    """P(click at k) = alpha_k r + beta_k of every curve: all traffic, then the segments.

    alpha, beta  (C, K)
    number       of the curve of a segment; other segments have that of all traffic
    covariance   (C M, C M) of log alpha (M = K), or of log alpha and then beta (M = 2 K) of each
                 curve; None: exact
    """

    alpha: np.ndarray
    beta: np.ndarray
    number: Mapping[str, int]
    covariance: np.ndarray | None

    @property
    def depth(self) -> int:
        """The number of positions, K."""
        return int(self.alpha.shape[1])

    @property
    def parameters(self) -> int:
        """M."""
        if self.covariance is None:
            return self.depth
        return int(self.covariance.shape[0]) // len(self.alpha)


class Clicked(NamedTuple):
    """The counts of documents and, per entry, where its log alpha is in the covariance (int64)."""

    shown: ShownCounts
    parameter: np.ndarray


def make_curves(
    pooled: Examination, by_segment: Mapping[str, Examination], *, affine: bool
) -> Curves:
    """Return the curves. affine: correct clicks for trust bias."""
    parts = [own.click_rates(affine) for own in (pooled, *by_segment.values())]
    alpha, beta = (np.stack(part) for part in zip(*parts, strict=True))
    beta = np.clip(beta, 0.0, 0.95)
    alpha = np.clip(alpha, _LEAST, 1 - beta)
    covariance = None
    if pooled.errors is not None:
        width = pooled.depth * (2 if affine else 1)
        covariance = pooled.errors.covariance[:, :width, :, :width]
        covariance = covariance.reshape(len(parts) * width, -1)
    return Curves(alpha, beta, {n: i for i, n in enumerate(by_segment, start=1)}, covariance)


def by_document(rows: pa.Table) -> pa.Table:
    """Return `shown_schema`, sorted. rows: query_id, doc_id and CELL, each combination once."""
    order = [(name, "ascending") for name in (*DOCUMENT, "segment", "position")]
    rows = rows.sort_by(order).combine_chunks()
    document, first = group_keys(hashes(rows["query_id"]), hashes(rows["doc_id"]))
    types = shown_schema.field("cells").type.value_type
    cells = pa.StructArray.from_arrays(
        [whole(rows[f.name]).cast(f.type) for f in types], fields=list(types)
    )
    names = rows.select(list(DOCUMENT)).take(pa.array(first))
    column = list_array(np.bincount(document, minlength=first.size), cells)
    return names.append_column("cells", column).cast(shown_schema)


def join_curves(documents: pa.Table | pa.RecordBatch, curves: Curves) -> Clicked:
    """Return the counts of documents. documents: rows of `shown_schema`."""
    offsets, cells = offsets_and_values(documents["cells"])
    segment, position, clicks, sessions = (pc.struct_field(cells, name) for name in CELL)
    curve = _numbers(segment, curves.number)
    at = position.to_numpy().astype(np.int64) - 1
    shown = ShownCounts(
        offsets,
        curves.alpha[curve, at],
        curves.beta[curve, at],
        clicks.to_numpy().astype(float),
        sessions.to_numpy().astype(float),
    )
    return Clicked(shown, curve * curves.parameters + at)


def _numbers(segments: pa.Array, number: Mapping[str, int]) -> np.ndarray:
    """Return the number of the curve of each segment (int64); 0 for null and other segments."""
    encoded = segments.dictionary_encode()
    table = np.array([number.get(name, 0) for name in encoded.dictionary.to_pylist()] + [0])
    return table[encoded.indices.fill_null(len(table) - 1).to_numpy()]


def sum_documents(shown: ShownCounts, values: np.ndarray) -> np.ndarray:
    """Return the sum over the entries of each document, float64."""
    lists = Ragged(shown.offsets)
    return np.bincount(lists.owner(), values, lists.offsets.size - 1)
