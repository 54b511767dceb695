"""Write a simulation: features/, truth/ and log/dt=DATE/ under one folder."""

from __future__ import annotations

import uuid
from functools import partial
from typing import Any

import numpy as np

from ulr.config.simulation import Simulate
from ulr.engine.failures import reraise_user_errors
from ulr.engine.interface import Engine, Items
from ulr.errors import UserError
from ulr.features.letor import read_letor
from ulr.simulate.tables import examination_table, relevance_table
from ulr.simulate.tasks import (
    page_files,
    within_click_budget,
    write_blocks,
    write_pages,
)
from ulr.simulate.traffic import Catalogue
from ulr.simulate.world import Judged, Synthetic, World, weak_ranker
from ulr.warehouse.storage import Storage

RECORD = "simulation.json"
MIN_RANKER_QUERIES = 5


def already_written(settings: Simulate) -> dict[str, int] | None:
    """Return the counts of a complete simulation with these settings, or None."""
    record = Storage(settings.path).read_json(RECORD)
    return record["wrote"] if record and record["settings"] == _recorded(settings) else None


@reraise_user_errors()
def simulate_log(engine: Engine, settings: Simulate) -> dict[str, int]:
    """Write the simulation, unless it was written with the same settings; return its counts.

    A simulation with other settings is replaced.
    """
    if counts := already_written(settings):
        return counts
    target = Storage(settings.path)
    if not target.exists(RECORD) and not target.is_empty():
        raise UserError(
            f"simulate.path = {settings.path!r} exists and is not a simulation; name another folder"
        )
    if not target.is_local:
        # Object stores cannot rename folders: the record, written last, marks a complete
        # simulation. Old files are deleted first, or they would be read as part of the new log.
        target.write_json({"settings": None}, RECORD)
        for name in ("log", "features", "truth"):
            target.delete(name)
        return _write_all(engine, settings)
    temporary = Storage(f"{target.root}.{uuid.uuid4().hex[:8]}")
    try:
        counts = _write_all(engine, settings.model_copy(update={"path": temporary.root}))
        temporary.make_durable()
        target.delete()
        target.fs.move(temporary.root, target.root)
        target.make_durable()
    finally:
        temporary.delete()
    return counts


def _recorded(settings: Simulate) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude={"path"})


def _write_all(engine: Engine, settings: Simulate) -> dict[str, int]:
    storage, recorded = Storage(settings.path), _recorded(settings)
    catalogue = _write_features(engine, settings)
    storage.write_table(relevance_table(settings, catalogue), "truth", "relevance.parquet")
    storage.write_table(examination_table(settings, catalogue), "truth", "examination.parquet")
    settings = within_click_budget(settings, catalogue)
    files = page_files(settings)
    shared = engine.share(catalogue)
    written = engine.map(Items(files), partial(write_pages, catalogue=shared, settings=settings))
    shared.close()
    counts = {
        "pages": sum(batch["pages"][0].as_py() for batch in written),
        "clicks": sum(batch["clicks"][0].as_py() for batch in written),
        "files": len(files),
        "queries": len(catalogue.names.queries),
        "documents": len(catalogue.names.documents),
    }
    storage.write_json({"settings": recorded, "wrote": counts}, RECORD)
    return counts


def _write_features(engine: Engine, settings: Simulate) -> Catalogue:
    """Write the features block by block; only labels and scores return to the driver."""
    world = _world(settings)
    names = world.names()
    learned = max(MIN_RANKER_QUERIES, round(len(names.queries) * settings.ranker_queries))
    ranker = weak_ranker(world.block(0), learned)
    shared = engine.share(world)
    write = partial(write_blocks, world=shared, ranker=ranker, path=settings.path)
    written = engine.map(Items(range(world.blocks)), write)
    shared.close()
    labels = np.concatenate([np.frombuffer(b["labels"][0].as_py(), np.int32) for b in written])
    scores = np.concatenate([np.frombuffer(b["scores"][0].as_py(), np.float32) for b in written])
    return Catalogue(names, labels, scores, world.max_label)


def _world(settings: Simulate) -> World:
    if settings.letor:
        return Judged(read_letor(settings.letor))
    return Synthetic(settings.seed, settings.queries, settings.docs_per_query, settings.features)
