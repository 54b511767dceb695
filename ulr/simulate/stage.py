"""The simulator on Spark: features, log and truth, the same files whatever the cluster.

A task makes one block of queries or one file of pages from a random stream named after it.
"""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.broadcast import Broadcast
from pyspark.sql import SparkSession

from ulr.config.settings import Simulate
from ulr.engine.failures import reraise_user_errors
from ulr.errors import UserError
from ulr.features.files import with_names
from ulr.features.letor import read_letor
from ulr.simulate.presets import click_models, experiment_of
from ulr.simulate.randomness import scrambled_ids, stream
from ulr.simulate.tables import impression_table, page_table, write_truth
from ulr.simulate.traffic import Catalogue, draw_pages, query_shares, rank_catalogue
from ulr.simulate.world import (
    Judged,
    LinearRanker,
    Synthetic,
    World,
    WorldBlock,
    weak_ranker,
)
from ulr.warehouse.schema import features_schema
from ulr.warehouse.storage import Storage

RECORD = "simulation.json"
PAGES_PER_BLOCK = 65_536
MIN_RANKER_QUERIES = 5
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class PageFile:
    """One file of the log: which date, which pages of that date."""

    day: int
    number: int
    first: int
    pages: int


def already_written(settings: Simulate) -> dict[str, int] | None:
    """What was written by the same settings to the same place, if it is there and whole."""
    record = Storage(settings.path).read_json(RECORD)
    return record["wrote"] if record and record["settings"] == _matters(settings) else None


@reraise_user_errors()
def simulate_log(spark: SparkSession, settings: Simulate) -> dict[str, int]:
    """Write features/, truth/ and log/dt=DATE/ under `settings.path`; return what was written.

    What is there already is kept if its settings are the same, and else replaced in one move.
    """
    if wrote := already_written(settings):
        return wrote
    target = Storage(settings.path)
    if not target.exists(RECORD) and not target.is_empty():
        raise UserError(
            f"simulate.path = {settings.path!r} exists and is not a simulation; name another folder"
        )
    if not target.is_local:
        # No rename of folders there: the record, rewritten last, says it is whole. What an older
        # simulation wrote goes first: its files would be read as part of the new log.
        target.write_json({"settings": None}, RECORD)
        for name in ("log", "features", "truth"):
            target.delete(name)
        return _write_all(spark, settings)
    aside = f"{target.root}.{uuid.uuid4().hex[:8]}"
    try:
        wrote = _write_all(spark, settings.model_copy(update={"path": aside}))
        target.delete()
        target.fs.move(Storage(aside).root, target.root)
    finally:
        Storage(aside).delete()
    return wrote


def _write_all(spark: SparkSession, settings: Simulate) -> dict[str, int]:
    world = _world(settings)
    catalogue = _write_features(spark, settings, world)
    write_truth(settings, catalogue)
    files = page_files(settings)
    shared = spark.sparkContext.broadcast(catalogue)
    write = partial(_write_page_files, files=files, shared=shared, settings=settings)
    tasks = spark.range(0, len(files), 1, len(files))
    rows = tasks.mapInArrow(write, "pages bigint, clicks bigint").collect()
    shared.unpersist()
    wrote = {
        "pages": sum(r.pages for r in rows),
        "clicks": sum(r.clicks for r in rows),
        "files": len(files),
        "queries": len(catalogue.names.queries),
        "documents": len(catalogue.names.documents),
    }
    Storage(settings.path).write_json({"settings": _matters(settings), "wrote": wrote}, RECORD)
    return wrote


def _matters(settings: Simulate) -> dict[str, Any]:
    return settings.model_dump(mode="json", exclude={"path"})


def page_files(settings: Simulate) -> list[PageFile]:
    """The log's files: whole ones of `pages_per_file`, then what is left of the day."""
    return [
        PageFile(day, number, first, min(settings.pages_per_file, settings.pages_per_day - first))
        for day in range(settings.days)
        for number, first in enumerate(
            range(0, settings.pages_per_day, settings.pages_per_file)
        )
    ]  # fmt: skip


def _world(settings: Simulate) -> World:
    if settings.letor:
        return Judged(read_letor(settings.letor))
    return Synthetic(
        settings.seed, settings.queries, settings.docs_per_query, settings.features
    )  # fmt: skip


def _write_features(spark: SparkSession, settings: Simulate, world: World) -> Catalogue:
    """Write the features block by block; only labels and scores come back to the driver."""
    names = world.names()
    learned = max(MIN_RANKER_QUERIES, round(len(names.queries) * settings.ranker_queries))
    ranker = weak_ranker(world.block(0), learned)
    shared = spark.sparkContext.broadcast(world)
    write = partial(_write_blocks, shared=shared, ranker=ranker, path=settings.path)
    tasks = spark.range(0, world.blocks, 1, world.blocks)
    schema = "number bigint, labels binary, scores binary"
    rows = sorted(tasks.mapInArrow(write, schema).collect(), key=lambda r: r.number)
    shared.unpersist()
    labels = np.concatenate([np.frombuffer(r.labels, np.int32) for r in rows])
    scores = np.concatenate([np.frombuffer(r.scores, np.float32) for r in rows])
    return Catalogue(names, labels, scores, world.max_label)


def _write_blocks(
    batches: Iterator[pa.RecordBatch], *, shared: Broadcast, ranker: LinearRanker, path: str
) -> Iterator[pa.RecordBatch]:
    storage = Storage(path)
    for batch in batches:
        for number in batch.column(0).to_pylist():
            block = shared.value.block(number)
            storage.write_table(_features_table(block), "features", f"part-{number:05d}.parquet")
            out = {
                "number": [number],
                "labels": [block.labels.astype(np.int32).tobytes()],
                "scores": [ranker.scores(block.features).tobytes()],
            }
            yield pa.RecordBatch.from_pydict(out)


def _features_table(block: WorldBlock) -> pa.Table:
    rows, width = block.features.shape
    offsets = np.arange(rows + 1, dtype=np.int32) * width
    features = pa.ListArray.from_arrays(offsets, pa.array(block.features.reshape(-1)))
    names = block.names
    columns = [names.query_of_document, names.documents, features, pa.array(block.labels)]
    table = pa.table(columns, schema=features_schema)
    return with_names(table, [f"f{number}" for number in range(1, width + 1)])


def _write_page_files(
    batches: Iterator[pa.RecordBatch],
    *,
    files: list[PageFile],
    shared: Broadcast,
    settings: Simulate,
) -> Iterator[pa.RecordBatch]:
    storage = Storage(settings.path)
    for batch in batches:
        for index in batch.column(0).to_pylist():
            file = files[index]
            table = pa.concat_tables(_draw_file(file, shared.value, settings))
            clicks = pc.sum(pc.list_flatten(table["clicks"])).as_py()
            if settings.layout == "impression":
                table = impression_table(table)
            day = settings.start + dt.timedelta(days=file.day)
            storage.write_table(table, "log", f"dt={day}", f"part-{file.number:05d}.parquet")
            yield pa.RecordBatch.from_pydict({"pages": [file.pages], "clicks": [clicks or 0]})


def _draw_file(file: PageFile, catalogue: Catalogue, settings: Simulate) -> Iterator[pa.Table]:
    experiment = experiment_of(settings)
    queries = len(catalogue.names.queries)
    shelf = rank_catalogue(
        catalogue,
        settings.positions,
        drift=settings.drift,
        noise=settings.relevance_noise,
        seed=settings.seed,
        day=file.day,
    )
    shares = query_shares(queries, settings.zipf, settings.hot_query_fraction)
    segments = settings.segments
    midnight = (settings.start - dt.date(1970, 1, 1)).days * DAY_US + file.day * DAY_US
    for start in range(0, file.pages, PAGES_PER_BLOCK):
        rng = stream(settings.seed, "pages", file.day, file.number, start)
        count = min(PAGES_PER_BLOCK, file.pages - start)
        pages = draw_pages(
            rng,
            count,
            shelf,
            query_cdf=np.cumsum(shares),
            segment_cdf=np.cumsum([s.fraction for s in segments] or [1.0]),
            models=click_models(settings),
            experiment=experiment,
        )
        in_day = file.first + start + np.arange(count)
        first = file.day * settings.pages_per_day + file.first + start
        yield page_table(
            pages,
            catalogue.names,
            session_digits=scrambled_ids(first, count, settings.seed),
            shown_at_us=midnight + times_of_day(in_day, settings.pages_per_day),
            segments=[s.name for s in segments],
            buckets=experiment.buckets,
        )


def times_of_day(page: np.ndarray, pages: int) -> np.ndarray:
    """Microseconds since midnight of pages that come evenly: page * DAY_US // pages, in parts, for
    the product is past 64 bits from a hundred million pages on."""
    step, rest = divmod(DAY_US, pages)
    return page * step + page * rest // pages
