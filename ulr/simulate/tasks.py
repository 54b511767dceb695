"""Tasks of the simulator: a task writes blocks of features or files of pages.

A block or a file is drawn from a random stream named after it, so that its content does not depend
on the task that writes it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.config.simulation import Simulate
from ulr.engine.interface import Batches, Shared
from ulr.simulate import ubi
from ulr.simulate.clicks import relevance_of
from ulr.simulate.events import draw_events, with_feedback
from ulr.simulate.presets import click_models, experiment_of
from ulr.simulate.randomness import scrambled_ids, stream
from ulr.simulate.tables import features_table, impression_table, page_table
from ulr.simulate.traffic import (
    Catalogue,
    DailyRankings,
    Pages,
    draw_pages,
    query_shares,
    rank_catalogue,
)
from ulr.simulate.world import LinearRanker
from ulr.warehouse.storage import Storage

PAGES_PER_BLOCK = 65_536
DAY_US = 86_400_000_000


@dataclass(frozen=True)
class PageFile:
    """One file of the log: pages [first, first + pages) of a day."""

    day: int
    number: int
    first: int
    pages: int


def page_files(settings: Simulate) -> list[PageFile]:
    """Return the files of the log, each with `pages_per_file` pages or the rest of its day."""
    step, last = settings.pages_per_file, settings.pages_per_day
    return [
        PageFile(day, number, first, min(step, last - first))
        for day in range(settings.days)
        for number, first in enumerate(range(0, last, step))
    ]


def write_blocks(numbers: list[int], *, world: Shared, ranker: LinearRanker, path: str) -> Batches:
    """Write blocks of features; yield their labels and production scores."""
    storage = Storage(path)
    for number in numbers:
        block = world.value.block(number)
        storage.write_table(features_table(block), "features", f"part-{number:05d}.parquet")
        labels, scores = block.labels.astype(np.int32), ranker.scores(block.features)
        yield pa.RecordBatch.from_pydict(
            {"labels": [labels.tobytes()], "scores": [scores.tobytes()]}
        )


def write_pages(files: list[PageFile], *, catalogue: Shared, settings: Simulate) -> Batches:
    """Write files of the log; yield the number of pages and clicks of each."""
    storage = Storage(settings.path)
    for file in files:
        table = pa.concat_tables(_draw_file(file, catalogue.value, settings))
        clicks = pc.sum(pc.list_flatten(table["clicks"])).as_py() or 0
        _write_file(storage, file, table, settings)
        yield pa.RecordBatch.from_pydict({"pages": [file.pages], "clicks": [clicks]})


def _write_file(storage: Storage, file: PageFile, pages: pa.Table, settings: Simulate) -> None:
    date, name = f"dt={settings.start + dt.timedelta(days=file.day)}", f"part-{file.number:05d}"
    if settings.layout == "ubi":
        storage.write_text(ubi.query_lines(pages), "log", ubi.QUERIES, date, f"{name}.json")
        storage.write_text(ubi.event_lines(pages), "log", ubi.EVENTS, date, f"{name}.json")
        return
    table = impression_table(pages) if settings.layout == "impression" else pages
    storage.write_table(table, "log", date, f"{name}.parquet")


def within_click_budget(settings: Simulate, catalogue: Catalogue) -> Simulate:
    """Return the settings with `pages_per_day` lowered to about `max_clicks` clicks in all.

    The clicks per page are measured on one block of pages of the first date, from a random stream
    of its own: the result depends on the settings only, and all dates keep equal numbers of pages.
    """
    if settings.max_clicks is None:
        return settings
    rng = stream(settings.seed, "click budget")
    pilot = _draw_pages(rng, PAGES_PER_BLOCK, _rankings(0, catalogue, settings), settings)
    per_page = max(pilot.clicks.sum() / PAGES_PER_BLOCK, 1e-9)
    pages = round(settings.max_clicks / per_page / settings.days)
    update = {"pages_per_day": min(settings.pages_per_day, max(pages, 1))}
    return settings.model_copy(update=update)


def _rankings(day: int, catalogue: Catalogue, settings: Simulate) -> DailyRankings:
    return rank_catalogue(
        catalogue,
        settings.positions,
        drift=settings.drift,
        noise=settings.relevance_noise,
        seed=settings.seed,
        day=day,
        binarize=settings.binarize,
    )


def _draw_file(file: PageFile, catalogue: Catalogue, settings: Simulate) -> Iterator[pa.Table]:
    rankings = _rankings(file.day, catalogue, settings)
    for start in range(0, file.pages, PAGES_PER_BLOCK):
        yield _draw_block(file, start, rankings, catalogue, settings)


def _draw_block(
    file: PageFile, start: int, rankings: DailyRankings, catalogue: Catalogue, settings: Simulate
) -> pa.Table:
    count = min(PAGES_PER_BLOCK, file.pages - start)
    rng = stream(settings.seed, "pages", file.day, file.number, start)
    pages = _draw_pages(rng, count, rankings, settings)
    first = file.first + start
    midnight = (settings.start - dt.date(1970, 1, 1)).days * DAY_US + file.day * DAY_US
    times = times_of_day(first + np.arange(count), settings.pages_per_day)
    table = page_table(
        pages,
        catalogue.names,
        session_digits=scrambled_ids(
            file.day * settings.pages_per_day + first, count, settings.seed
        ),
        shown_at_us=midnight + times,
        segments=[s.name for s in settings.segments],
        buckets=experiment_of(settings).buckets,
    )
    if not settings.feedback:
        return table
    labels, noise = catalogue.labels, settings.relevance_noise
    relevance = relevance_of(labels, catalogue.max_label, noise, settings.binarize)
    rng = stream(settings.seed, "feedback", file.day, file.number, start)
    return with_feedback(table, draw_events(rng, pages, relevance, settings.feedback))


def _draw_pages(
    rng: np.random.Generator, count: int, rankings: DailyRankings, settings: Simulate
) -> Pages:
    queries = len(rankings.documents)
    shares = query_shares(queries, settings.zipf, settings.hot_query_fraction)
    return draw_pages(
        rng,
        count,
        rankings,
        query_cdf=np.cumsum(shares),
        segment_cdf=np.cumsum([s.fraction for s in settings.segments] or [1.0]),
        models=click_models(settings),
        experiment=experiment_of(settings),
    )


def times_of_day(page: np.ndarray, pages: int) -> np.ndarray:
    """Return the time of each page (int64, microseconds since midnight), evenly spaced.

    It is page * DAY_US // pages, computed in two parts: from a hundred million pages on, the
    product exceeds 64 bits.
    """
    step, rest = divmod(DAY_US, pages)
    return page * step + page * rest // pages
