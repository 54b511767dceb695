"""What only a simulator knows: true relevance and true examination, as tables."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow as pa

from ulr.config.settings import Simulate
from ulr.simulate.clicks import relevance_of
from ulr.simulate.presets import click_models
from ulr.simulate.traffic import Catalogue, fill_shelf, query_shares
from ulr.warehouse.schema import truth_examination_schema, truth_relevance_schema
from ulr.warehouse.storage import Storage


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
    shelf = fill_shelf(
        catalogue, settings.positions, drift=0.0, noise=noise, seed=settings.seed, day=0
    )
    weight = query_shares(len(names.queries), settings.zipf, settings.hot_query_share)
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
