"""A simulated log as Arrow tables, written without Spark."""

from __future__ import annotations

import tempfile
from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds

from ulr.config.load import load_settings
from ulr.simulate.stage import MIN_RANKER_QUERIES
from ulr.simulate.tables import examination_table, features_table, relevance_table
from ulr.simulate.tasks import page_files, write_pages
from ulr.simulate.traffic import Catalogue
from ulr.simulate.world import Synthetic, weak_ranker


class SimulatedPages(NamedTuple):
    """Pages, features, and the true relevance and examination of a log."""

    pages: pa.Table
    features: pa.Table
    relevance: pa.Table
    examination: pa.Table


def simulated_pages(*changes: str, conf: list[str] | None = None) -> SimulatedPages:
    """Return a log. changes: settings as in `simulate.queries=80`."""
    settings = load_settings(conf, list(changes)).simulate
    world = Synthetic(settings.seed, settings.queries, settings.docs_per_query, settings.features)
    blocks = [world.block(number) for number in range(world.blocks)]
    learned = max(MIN_RANKER_QUERIES, round(settings.queries * settings.ranker_queries))
    ranker = weak_ranker(blocks[0], learned)
    catalogue = Catalogue(
        world.names(),
        np.concatenate([block.labels.astype(np.int32) for block in blocks]),
        np.concatenate([ranker.scores(block.features).astype(np.float32) for block in blocks]),
        world.max_label,
    )
    with tempfile.TemporaryDirectory() as folder:
        settings = settings.model_copy(update={"path": folder})
        files = page_files(settings)
        shared = SimpleNamespace(value=catalogue)
        for _ in write_pages(files, catalogue=shared, settings=settings):
            pass
        pages = ds.dataset(f"{folder}/log", format="parquet").to_table()
    return SimulatedPages(
        pages,
        pa.concat_tables([features_table(block) for block in blocks]),
        relevance_table(settings, catalogue),
        examination_table(settings, catalogue),
    )
