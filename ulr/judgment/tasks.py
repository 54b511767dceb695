"""Judgments in tasks: clicks by document, ratings, lines of the file.

Documents are partitioned by ranges of queries, so that the lines of all parts are in order. A task
writes its part to a folder that every task reaches.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ulr.engine.blocks import open_table, table_bytes
from ulr.engine.columns import hashes, whole
from ulr.engine.interface import Batches, Blocks, Engine, Items
from ulr.judgment.counts import CELL, DOCUMENT, by_document, shown_schema
from ulr.judgment.csv_text import Layout, csv_text
from ulr.judgment.judge import TAIL, JudgePlan, judge
from ulr.propensity.tally import EXPOSURE_COLUMNS, read_groups
from ulr.propensity.tasks import GroupFiles, exposures, sum_exposures
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.storage import Storage

_NAMES_PER_PART = 64  # of queries in the sample that the ranges are taken from
_JUDGED_AT_ONCE = 65_536
_KEYS = [*DOCUMENT, *CELL[:2]]


def write_documents(
    engine: Engine, groups: GroupFiles, url: str, *, max_position: int, parts: int, sample: int
) -> tuple[list[str], pa.Table]:
    """Write `shown_schema` of all documents under `url`, by ranges of queries.

    Returns the files in the order of queries, and at most `sample` documents, those with the
    lowest hashes, in that order.
    """
    bounds = _range_bounds(engine, groups, parts) if parts > 1 else []
    shown = exposures(
        groups,
        _KEYS,
        max_position=max_position,
        parts=len(bounds) + 1,
        part_of=partial(_part_in_range, bounds=bounds),
    )
    batches = engine.map(shown, partial(_write_documents, url=url, sample=sample))
    files = [batch["file"][0].as_py() for batch in batches]
    drawn = pa.concat_tables(
        [shown_schema.empty_table(), *(open_table(b["sample"][0].as_buffer()) for b in batches)]
    )
    return files, drawn.take(pa.array(_lowest(drawn, sample)))


def write_lines(
    engine: Engine, url: str, files: Sequence[str], plan: JudgePlan, layout: Layout
) -> list[tuple[str, int, int]]:
    """Write the lines of every file of documents; return their files, documents and supported."""
    run = partial(_write_lines, url=url, plan=plan, layout=layout)
    rows = [row for batch in engine.map(Items(files), run) for row in batch.to_pylist()]
    return [(row["file"], row["documents"], row["supported"]) for row in rows]


def _range_bounds(engine: Engine, groups: GroupFiles, parts: int) -> list[str]:
    """Return the first query of every range but the first, from a sample of the queries."""
    count = parts * _NAMES_PER_PART
    sample = partial(_sample_names, url=groups.url, count=count)
    batches = engine.map(groups.source(), sample)
    names = {name for batch in batches for name in batch["name"].to_pylist()}
    ids = pa.array(sorted(names), pa.string())
    order = np.argsort(hashes(ids), kind="stable")[:count]
    chosen = sorted(ids.take(pa.array(order)).to_pylist())
    cuts = [len(chosen) * n // parts for n in range(1, parts)]
    return sorted({chosen[cut] for cut in cuts if cut})


def _sample_names(files: Sequence[tuple[int, str]], *, url: str, count: int) -> Batches:
    found = pa.array([], pa.string())
    for batch in read_groups(url, [path for _, path in files], EXPOSURE_COLUMNS):
        found = pa.concat_arrays([found, batch["query_id"]]).unique()
        found = found.take(pa.array(np.argsort(hashes(found), kind="stable")[:count]))
    yield pa.RecordBatch.from_pydict({"name": found})


def _part_in_range(table: pa.Table, *, bounds: Sequence[str]) -> np.ndarray:
    names = whole(table["query_id"]).dictionary_encode()
    if not bounds or not len(names):
        return np.zeros(len(names), np.int64)
    part = np.searchsorted(np.array(bounds, object), names.dictionary.to_pylist(), side="right")
    result: np.ndarray = part[names.indices.to_numpy()]
    return result


def _write_documents(blocks: Blocks, *, url: str, sample: int) -> Batches:
    tables, number = [], 0
    for part, _, content in blocks:
        number = part
        tables.append(open_table(content))
    documents = by_document(sum_exposures(tables, _KEYS))
    name = f"documents-{number:05d}.parquet"
    Storage(url).write_table(documents, name, row_group=_JUDGED_AT_ONCE)
    drawn = documents.take(pa.array(_lowest(documents, sample)))
    content = pa.array([table_bytes(drawn).to_pybytes()])
    yield pa.RecordBatch.from_arrays([pa.array([name]), content], names=["file", "sample"])


def _lowest(documents: pa.Table, count: int) -> np.ndarray:
    """Return the rows (int64) with the lowest hashes of query and document, in that order."""
    if not documents.num_rows:
        return np.zeros(0, np.int64)
    key = hashes(documents["doc_id"], hashes(documents["query_id"])).view(np.int64)
    return np.argsort(key, kind="stable")[:count]


def _write_lines(files: Sequence[str], *, url: str, plan: JudgePlan, layout: Layout) -> Batches:
    for name in files:
        judgments = _judged(url, name, plan)
        text = f"{name.removesuffix('.parquet')}.csv"
        pieces = judgments.to_batches(_JUDGED_AT_ONCE)
        lines = (csv_text(pa.Table.from_batches([piece]), layout) for piece in pieces)
        Storage(url).write_chunks(lines, text)
        counts = [judgments.num_rows], [count_supported(judgments, layout)]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values) for values in ([text], *counts)],
            names=["file", "documents", "supported"],
        )


def judge_files(files: Sequence[str], *, url: str, plan: JudgePlan) -> Batches:
    """Yield the judgments of files of documents, in the order of the file of judgments."""
    for name in files:
        yield from _judged(url, name, plan).to_batches()


def _judged(url: str, name: str, plan: JudgePlan) -> pa.Table:
    fs, root = open_filesystem(url)
    with pq.ParquetFile(f"{root}/{name}", filesystem=fs) as file:
        batches = file.iter_batches(_JUDGED_AT_ONCE, use_threads=False)
        return _in_order(pa.concat_tables([judge(batch, plan) for batch in batches]))


def _in_order(judgments: pa.Table) -> pa.Table:
    """Sort by query, then the best document first."""
    order = [("query_id", "ascending"), ("rating", "descending"), ("doc_id", "ascending")]
    return judgments.sort_by(order)


def count_supported(judgments: pa.Table, layout: Layout) -> int:
    """Return how many intervals are at most half as wide as that of the prior."""
    lower, upper = layout.prior.interval(TAIL)
    widths = whole(judgments["upper"]).to_numpy() - whole(judgments["lower"]).to_numpy()
    return int(np.count_nonzero(widths <= (upper - lower) / 2))
