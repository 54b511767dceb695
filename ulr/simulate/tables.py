"""Drawn pages as Arrow tables in the log's two layouts."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ulr.config.settings import Simulate
from ulr.simulate.clicks import relevance_of
from ulr.simulate.presets import click_models
from ulr.simulate.traffic import Catalogue, Pages, query_shares, rank_catalogue
from ulr.simulate.world import Names
from ulr.warehouse.schema import (
    TIMESTAMP,
    impression_schema,
    page_schema,
    truth_examination_schema,
    truth_relevance_schema,
)
from ulr.warehouse.storage import Storage


def page_table(
    pages: Pages,
    names: Names,
    *,
    session_digits: np.ndarray,
    shown_at_us: np.ndarray,
    segments: list[str],
    buckets: tuple[str, ...],
) -> pa.Table:
    """One row per page. session_digits: uint8 ASCII, pages x digits."""
    present = pages.documents >= 0
    offsets = np.concatenate([[0], np.cumsum(present.sum(axis=1))]).astype(np.int32)
    documents = names.documents.take(pa.array(pages.documents[present]))
    in_bucket = pages.bucket > 0
    columns = [
        _fixed_strings(session_digits),
        names.queries.take(pa.array(pages.query)),
        pa.array(shown_at_us).cast(TIMESTAMP),
        pa.ListArray.from_arrays(offsets, documents),
        pa.ListArray.from_arrays(offsets, pa.array(pages.clicks[present])),
        _choice(segments, pages.segment, np.full(pages.segment.size, bool(segments))),
        _choice(list(buckets), pages.bucket - 1, in_bucket),
        pa.array(pages.swapped, mask=~in_bucket),
    ]
    return pa.table(columns, schema=page_schema)


def impression_table(pages: pa.Table) -> pa.Table:
    """The same pages, one row per shown document."""
    lists = pages["doc_ids"].combine_chunks()
    offsets = lists.offsets.to_numpy()
    counts = np.diff(offsets)
    page = np.repeat(np.arange(pages.num_rows), counts)
    position = np.arange(offsets[-1]) - np.repeat(offsets[:-1], counts) + 1
    repeated = pages.drop_columns(["doc_ids", "clicks"]).take(pa.array(page))
    clicks = pages["clicks"].combine_chunks()
    added = {
        "doc_id": lists.flatten(),
        "position": pa.array(position.astype(np.int32)),
        "clicked": clicks.flatten(),
    }
    columns = [added.get(f.name) for f in impression_schema]
    columns = [
        repeated[f.name] if c is None else c
        for f, c in zip(impression_schema, columns, strict=True)
    ]
    return pa.table(columns, schema=impression_schema)


def _fixed_strings(digits: np.ndarray) -> pa.Array:
    count, width = digits.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(digits))]
    return pa.StringArray.from_buffers(count, buffers[1], buffers[2])


def _choice(names: list[str], index: np.ndarray, present: np.ndarray) -> pa.Array:
    if not names:
        return pa.nulls(index.size, pa.string())
    return pa.array(names, pa.string()).take(pa.array(np.where(present, index, 0), mask=~present))


def write_truth(settings: Simulate, catalogue: Catalogue) -> None:
    """Write relevance per document, and theta, psi, alpha and beta per segment."""
    storage = Storage(settings.path)
    noise = settings.relevance_noise
    relevance = relevance_of(catalogue.labels, catalogue.max_label, noise)
    names = catalogue.names
    columns = [names.query_of_document, names.documents, catalogue.labels, relevance]
    table = pa.table(columns, schema=truth_relevance_schema)
    storage.write_table(table, "truth", "relevance.parquet")
    examination = pa.concat_tables(_examination(settings, catalogue))
    storage.write_table(examination, "truth", "examination.parquet")


def _examination(settings: Simulate, catalogue: Catalogue) -> Iterator[pa.Table]:
    """One table per segment, for the rankings as they are without drift."""
    names, noise = catalogue.names, settings.relevance_noise
    shelf = rank_catalogue(
        catalogue, settings.positions, drift=0.0, noise=noise, seed=settings.seed, day=0
    )
    weight = query_shares(len(names.queries), settings.zipf, settings.hot_query_fraction)
    labels = [s.name for s in settings.segments] or [None]
    for segment, model in zip(labels, click_models(settings), strict=True):
        psi, alpha, beta = model.truth(shelf.relevance, weight)
        k, v = np.triu_indices(settings.positions)
        same = k == v
        columns = [
            pa.array([segment] * k.size, pa.string()),
            pa.array((k + 1).astype(np.int32)),
            pa.array((v + 1).astype(np.int32)),
            pa.array(psi[k, v]),
            pa.array(alpha[k], mask=~same),
            pa.array(beta[k], mask=~same),
        ]
        yield pa.table(columns, schema=truth_examination_schema)
