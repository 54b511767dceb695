"""Arrow tables of a simulation: features, pages in the log's two layouts, and the truth."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ulr.config.simulation import Simulate
from ulr.engine.columns import list_array, offsets_and_values
from ulr.features.files import with_names
from ulr.kernels.layout import Ragged
from ulr.simulate.clicks import relevance_of
from ulr.simulate.presets import click_models
from ulr.simulate.traffic import Catalogue, Pages, query_shares, rank_catalogue
from ulr.simulate.world import Names, WorldBlock
from ulr.warehouse.schema import (
    FEEDBACK,
    TIMESTAMP,
    features_schema,
    graded,
    impression_schema,
    page_schema,
    truth_examination_schema,
    truth_relevance_schema,
)


def features_table(block: WorldBlock) -> pa.Table:
    """Return the documents of a block with features named f1, f2, ..."""
    rows, width = block.features.shape
    features = list_array(np.full(rows, width), pa.array(block.features.reshape(-1)))
    names = block.names
    columns = [names.query_of_document, names.documents, features, pa.array(block.labels)]
    table = pa.table(columns, schema=features_schema)
    return with_names(table, [f"f{number}" for number in range(1, width + 1)])


def page_table(
    pages: Pages,
    names: Names,
    *,
    session_digits: np.ndarray,
    shown_at_us: np.ndarray,
    segments: list[str],
    buckets: tuple[str, ...],
) -> pa.Table:
    """Return one row per page.

    session_digits: uint8 (ASCII), pages x digits. shown_at_us: int64, microseconds since 1970.
    """
    present = pages.documents >= 0
    lengths = present.sum(axis=1)
    documents = names.documents.take(pa.array(pages.documents[present]))
    in_bucket = pages.bucket > 0
    columns = [
        _fixed_strings(session_digits),
        names.queries.take(pa.array(pages.query)),
        pa.array(shown_at_us).cast(TIMESTAMP),
        list_array(lengths, documents),
        list_array(lengths, pa.array(pages.clicks[present])),
        _choice(segments, pages.segment, np.full(pages.segment.size, bool(segments))),
        _choice(list(buckets), pages.bucket - 1, in_bucket),
        pa.array(pages.swapped, mask=~in_bucket),
    ]
    return pa.table(columns, schema=page_schema)


def impression_table(pages: pa.Table) -> pa.Table:
    """Return the same pages with one row per shown document."""
    offsets, documents = offsets_and_values(pages["doc_ids"])
    _, clicks = offsets_and_values(pages["clicks"])
    lists = Ragged(offsets)
    of_documents = [n for n in ("doc_ids", "clicks", FEEDBACK) if n in pages.column_names]
    rows = pages.drop_columns(of_documents).take(pa.array(lists.owner()))
    columns = {name: rows[name] for name in rows.column_names} | {
        "doc_id": documents,
        "position": pa.array((lists.within() + 1).astype(np.int32)),
        "clicked": clicks,
    }
    schema = impression_schema
    if FEEDBACK in of_documents:
        columns[FEEDBACK], schema = offsets_and_values(pages[FEEDBACK])[1], graded(schema)
    return pa.table([columns[name] for name in schema.names], schema=schema)


def relevance_table(settings: Simulate, catalogue: Catalogue) -> pa.Table:
    """Return the true relevance of every document."""
    names, labels = catalogue.names, catalogue.labels
    noise, binarize = settings.relevance_noise, settings.binarize
    relevance = relevance_of(labels, catalogue.max_label, noise, binarize)
    columns = [names.query_of_document, names.documents, labels, relevance]
    return pa.table(columns, schema=truth_relevance_schema)


def examination_table(settings: Simulate, catalogue: Catalogue) -> pa.Table:
    """Return true theta, psi, alpha and beta of each segment, for rankings without drift."""
    rankings = rank_catalogue(
        catalogue,
        settings.positions,
        drift=0.0,
        noise=settings.relevance_noise,
        seed=settings.seed,
        day=0,
        binarize=settings.binarize,
    )
    queries = len(catalogue.names.queries)
    weight = query_shares(queries, settings.zipf, settings.hot_query_fraction)
    segments: list[str | None] = [s.name for s in settings.segments]
    k, l = np.triu_indices(settings.positions)  # noqa: E741 (the name in docs/methods.md)
    tables = []
    for segment, model in zip(segments or [None], click_models(settings), strict=True):
        psi, alpha, beta = model.truth(rankings.relevance, weight)
        columns = [
            pa.array([segment] * k.size, pa.string()),
            pa.array((k + 1).astype(np.int32)),
            pa.array((l + 1).astype(np.int32)),
            pa.array(psi[k, l]),
            pa.array(alpha[k], mask=k != l),
            pa.array(beta[k], mask=k != l),
        ]
        tables.append(pa.table(columns, schema=truth_examination_schema))
    return pa.concat_tables(tables)


def _fixed_strings(digits: np.ndarray) -> pa.Array:
    count, width = digits.shape
    offsets = np.arange(count + 1, dtype=np.int32) * width
    data = pa.py_buffer(np.ascontiguousarray(digits))
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), data)


def _choice(names: list[str], index: np.ndarray, present: np.ndarray) -> pa.Array:
    if not names:
        return pa.nulls(index.size, pa.string())
    return pa.array(names, pa.string()).take(pa.array(np.where(present, index, 0), mask=~present))
