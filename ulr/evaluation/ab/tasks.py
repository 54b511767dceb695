"""Tasks of A/B tests: counts by ranker of several dates, summed by query."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ulr.engine.blocks import open_table, partition_blocks, table_bytes
from ulr.engine.columns import hashes
from ulr.engine.interface import Batches, Block, Blocks, Engine, Exchange, Items, partitions_for
from ulr.evaluation.ab.totals import CUTS, NO_QUERIES, Served, Totals, read_totals, total
from ulr.groups.rankers import FILE_PREFIX
from ulr.kernels.merge import group_keys
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.schema import RANKER
from ulr.warehouse.storage import StoredFile
from ulr.warehouse.tables import Warehouse

MOST_RANKERS = 1000  # that are listed


def ranker_files(warehouse: Warehouse, date: dt.date) -> list[StoredFile]:
    """Return the files of counts by ranker of a date; empty if its log has no rankers."""
    manifest = warehouse.require("groups", f"dt={date}")
    warehouse.check(manifest)
    names = [file.name for file in manifest.files if file.name.startswith(FILE_PREFIX)]
    folder = warehouse.storage_of("groups", f"dt={date}")
    return folder.stat([folder.path(manifest.where, manifest.folder, name) for name in names])


def pages_by_ranker(
    engine: Engine, url: str, files: Sequence[StoredFile], segment: str | None
) -> dict[str, int]:
    """Return the pages of each ranker, most first; of at most MOST_RANKERS rankers."""
    send = partial(_send_pages, url=url, segment=segment)
    most = [
        row
        for batch in engine.map(Exchange([(_items(files), send)], 1), _most_pages)
        for row in batch.to_pylist()
    ]
    return {row[RANKER]: row["pages"] for row in most}


def compare_rankers(
    engine: Engine,
    url: str,
    files: Sequence[StoredFile],
    rankers: tuple[str, str],
    segment: str | None,
) -> Totals:
    """Return the totals of two rankers over the queries of all files."""
    size = sum(file.size for file in files)
    parts = partitions_for(size)
    send = partial(_send, url=url, rankers=rankers, segment=segment, parts=parts)
    # Sums of numbers that are not integers depend on their order, which is that of the parts.
    result = NO_QUERIES
    for batch in engine.map(Exchange([(_items(files), send)], parts), _total):
        result = result + read_totals(batch["totals"][0].as_py())
    return result


def _items(files: Sequence[StoredFile]) -> Items:
    return Items(files, [file.size for file in files])


def _send_pages(files: list[StoredFile], *, url: str, segment: str | None) -> Iterator[Block]:
    """Send the pages of each ranker; there are few rankers."""
    tables = list(_read(files, url, segment, [RANKER, "pages"]))
    if tables:
        yield 0, "pages", table_bytes(_sum_pages(tables))


def _most_pages(blocks: Blocks) -> Batches:
    summed = _sum_pages([open_table(content) for _, _, content in blocks])
    order = [("pages", "descending"), (RANKER, "ascending")]
    yield from summed.sort_by(order)[:MOST_RANKERS].combine_chunks().to_batches()


def _sum_pages(tables: Sequence[pa.Table]) -> pa.Table:
    counts = pa.concat_tables(tables).group_by(RANKER).aggregate([("pages", "sum")])
    return pa.table([counts[RANKER], counts["pages_sum"]], names=[RANKER, "pages"])


def _read(
    files: list[StoredFile], url: str, segment: str | None, columns: Sequence[str]
) -> Iterator[pa.Table]:
    fs, _ = open_filesystem(url)
    for file in files:
        chosen = [*columns, *(["segment"] if segment is not None else [])]
        table = pq.read_table(file.path, columns=chosen, filesystem=fs, use_threads=False,
                              partitioning=None)  # fmt: skip
        if segment is not None:
            table = table.filter(pc.equal(table["segment"], segment))
        if table.num_rows:
            yield table


def _send(
    files: list[StoredFile], *, url: str, rankers: tuple[str, str], segment: str | None, parts: int
) -> Blocks:
    """Send counts of the two rankers by hash of the query."""
    columns = ["query_id", RANKER, "first_click", "pages", "clicks"]
    for counts in _read(files, url, segment, columns):
        number = pc.index_in(counts[RANKER], pa.array(rankers))
        table = counts.append_column("side", number).filter(number.is_valid())
        query = hashes(table["query_id"])
        rows = table.select(["side", "first_click", "pages", "clicks"]).append_column(
            "query", pa.array(query)
        )
        part = (query % np.uint64(parts)).astype(np.int64)
        yield from partition_blocks("served", rows, part)


def _total(blocks: Blocks) -> Batches:
    """Sum the counts of a part by query, and the queries to totals."""
    tables = [open_table(content) for _, _, content in blocks]
    totals = total(served_of(pa.concat_tables(tables)))
    yield pa.RecordBatch.from_pydict({"totals": [totals.to_json()]})


def served_of(rows: pa.Table) -> Served:
    """Return the pages and events of each query, sorted by the hash of the query.

    rows: query (uint64), side (0 or 1), first_click, pages and clicks.
    """
    query = rows["query"].to_numpy()
    order = np.argsort(query, kind="stable")
    key, first = group_keys(query[order], np.zeros(query.size, np.uint64))
    side = rows["side"].to_numpy()[order]
    position = rows["first_click"].to_numpy()[order]
    pages, clicks = rows["pages"].to_numpy()[order], rows["clicks"].to_numpy()[order]

    def summed(values: np.ndarray) -> np.ndarray:
        result = np.zeros((first.size, 2), np.int64)
        np.add.at(result, (key, side), values)
        return result

    clicked = position > 0
    events = [summed(pages * (clicked & (position <= k))) for k in CUTS]
    events += [summed(pages * clicked), summed(clicks)]
    return Served(summed(pages), np.stack(events), query[order][first])
