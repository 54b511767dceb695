"""Tasks that turn pages into groups.

Map tasks check their pages, fold them into histograms and send each reducer its part; reducers
merge the parts and write one file each. This takes one shuffle of data already combined, and one
pass over the log. If a session id occurs more than once, a second pass subtracts all but the first
page of each such id; counts are integers, so the result is exact. Features that pages recorded
cannot be subtracted: where the last vector of a document was on subtracted pages only, a third
pass collects the vectors of the other pages. Counts of rows are sent with the data, not in
accumulators, so that a retried task counts once.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ulr.clicklog.pages import PageReader, PageSource, as_read
from ulr.clicklog.quarantine import count_reasons, quarantine_rows, sort_quarantine
from ulr.engine.blocks import bytes_block, hash_parts, open_table, partition_blocks
from ulr.engine.columns import hashes
from ulr.engine.interface import Batches, Blocks, Engine, Exchange
from ulr.groups.deduplicate import (
    RepeatedIds,
    collect_repeated,
    hash_blocks,
    in_turn,
    keep_repeated,
    reducer_limit,
    repeated_pages,
)
from ulr.groups.folding import Folder
from ulr.groups.output import Output, Targets, file_name, remove_features, remove_files
from ulr.groups.parts import GroupsPart
from ulr.warehouse.table_files import TableFiles

QUARANTINE_BYTES = 64 << 20  # bad rows held in memory before they are sent
_UNIQUE, _LAST = "-unique", "-last"  # of names of files that replace others


@dataclass(frozen=True)
class _Written:
    """One reducer's result: counts of rows, counts of its file, hashes of repeated ids."""

    part: int
    counts: Counter[str]
    file: Counter[str]
    repeated: np.ndarray


def write_groups(
    engine: Engine,
    source: PageSource,
    targets: Targets,
    *,
    partitions: int,
    max_position: int,
    max_repeated_ids: int,
) -> Counter[str]:
    """Write the files of a date's groups, quarantine and features; return the counts."""
    fold = partial(
        _fold_pages,
        reader=source.reader,
        partitions=partitions,
        max_position=max_position,
        unique=source.sessions_are_unique,
    )
    limit = reducer_limit(max_repeated_ids, partitions)
    finish = partial(_write_part, targets=targets, limit=limit)
    written = _reduce(engine, Exchange([(source.source, fold)], partitions), finish)
    if not written:  # a plan without tasks: there are no rows
        GroupsPart().write(TableFiles(targets.groups), file_name(0))
    repeated = collect_repeated([w.repeated for w in written], partitions, max_repeated_ids)
    corrected: list[_Written] = []
    if not repeated.none:
        pages = repeated_pages(source, repeated, partitions)
        later = partial(
            _fold_later, reader=source.reader, partitions=partitions, max_position=max_position
        )
        subtract = partial(_subtract, targets=targets)
        corrected = _reduce(engine, Exchange([(pages, later)], partitions), subtract)
        for w in corrected:
            remove_files(targets, w.part)
    total = _total(written, corrected)
    if total.pop("stale_features", 0):
        counts = _write_features_again(
            engine,
            source,
            repeated,
            targets,
            partitions=partitions,
            max_position=max_position,
        )
        total.update({name: counts[name] - total[name] for name in ("features", "features_bytes")})
    return total


def _write_features_again(
    engine: Engine,
    source: PageSource,
    repeated: RepeatedIds,
    targets: Targets,
    *,
    partitions: int,
    max_position: int,
) -> Counter[str]:
    """Write the features of a date from the pages that are not subtracted; return their counts."""
    fold = partial(
        _fold_features, reader=source.reader, partitions=partitions, max_position=max_position
    )
    others = source.source, partial(fold, repeated=repeated)
    kept = repeated_pages(source, repeated, partitions), partial(fold, repeated=None)
    finish = partial(_write_features, targets=targets)
    written = _reduce(engine, Exchange([others, kept], partitions), finish)
    for part in range(partitions):
        for suffix in ("", _UNIQUE):
            remove_features(targets, part, suffix)
    counts = Counter[str]()
    for w in written:
        counts.update(w.file)
    return counts


def _reduce(
    engine: Engine, blocks: Exchange, finish: Callable[[Blocks], Batches]
) -> list[_Written]:
    rows = [row for batch in engine.map(blocks, finish) for row in batch.to_pylist()]
    return [
        _Written(
            row["part"],
            Counter(json.loads(row["counts"])),
            Counter(json.loads(row["file"])),
            np.frombuffer(row["repeated"], np.uint64),
        )
        for row in rows  # one per file
    ]


def _total(written: list[_Written], corrected: list[_Written]) -> Counter[str]:
    """Add up the counts; a corrected file replaces the one that was written first.

    `longest` is the number of documents of the longest list in any file.
    """
    total = Counter(read=0, pages=0, duplicates=0, duplicate_rows=0, cut=0)
    for w in (*written, *corrected):
        total.update(w.counts)
    files = {w.part: w.file for w in written} | {w.part: w.file for w in corrected}
    for file in files.values():
        total.update(file)
    total["longest"] = max((file["longest"] for file in files.values()), default=0)
    return total


def _fold_pages(
    argument: Any, *, reader: PageReader, partitions: int, max_position: int, unique: bool
) -> Blocks:
    """Fold the good pages, send the hashes of their session ids, and quarantine bad pages."""
    folder = Folder(partitions, max_position)
    bad: list[pa.Table] = []
    keys: list[np.ndarray] = []
    for batch in reader.read(argument):
        pages = reader.check(batch)
        good = pages.good
        folder.counts["read"] += batch.num_rows
        folder.counts["duplicate_rows"] += pc.sum(batch["repeats"]).as_py() or 0
        if not unique:
            keys.append(hashes(batch["session_id"])[good])
        if pages.bad.size:
            bad.append(quarantine_rows(pages))
        if sum(rows.nbytes for rows in bad) >= QUARANTINE_BYTES:
            yield from _send_quarantine(bad, partitions)
            bad = []
        yield from folder.add(pages, good)
    yield from folder.finish()
    yield from hash_blocks(keys, partitions)
    if bad:
        yield from _send_quarantine(bad, partitions)


def _send_quarantine(bad: list[pa.Table], partitions: int) -> Blocks:
    rows = pa.concat_tables(bad)
    yield bytes_block(0, "counts", json.dumps(count_reasons(rows)).encode())
    yield from partition_blocks("quarantine", rows, hash_parts(rows["source"], partitions))


def _fold_later(
    blocks: Blocks, *, reader: PageReader, partitions: int, max_position: int
) -> Blocks:
    """Fold pages to drop, with negative counts."""
    folder = Folder(partitions, max_position, sign=-1)
    for batch in as_read(in_turn(blocks, first=False)):
        pages = reader.check(batch)
        folder.counts["duplicates"] += batch.num_rows
        yield from folder.add(pages, pages.good)
    yield from folder.finish()


def _fold_features(
    argument: Any,
    *,
    reader: PageReader,
    repeated: RepeatedIds | None,
    partitions: int,
    max_position: int,
) -> Blocks:
    """Fold the features of pages without a repeated id; None: of the first page of each id."""
    folder = Folder(partitions, max_position)
    first = as_read(in_turn(argument, first=True)) if repeated is None else None
    for batch in first or reader.read(argument):
        pages = reader.check(batch)
        rows = pages.good if repeated is None else repeated.other_rows(pages)
        yield from folder.add_features(pages, rows)
    yield from folder.finish()


def _write_part(blocks: Blocks, *, targets: Targets, limit: int) -> Batches:
    """Merge and write a reducer's part; same input, same bytes, so that a retry may overwrite."""
    counts: Counter[str] = Counter()
    output, bad, keys = Output(targets), list[pa.Table](), list[pa.Buffer]()
    number = None
    for part, kind, content in blocks:
        number = part
        if kind == "counts":
            counts.update(json.loads(bytes(content)))
        elif kind == "hashes":
            keys.append(content)
        elif kind == "quarantine":
            bad.append(open_table(content))
        else:
            output.add(kind, content)
    if number is None:
        return
    file = output.write(number)
    if bad:
        rows = sort_quarantine(pa.concat_tables(bad))
        storage = TableFiles(targets.quarantine)
        counts["quarantine_bytes"] += storage.write_table(rows, file_name(number))
    yield _result(number, counts, file, keep_repeated(keys, limit))


def _subtract(blocks: Blocks, *, targets: Targets) -> Batches:
    """Write a reducer's part again, without the pages to drop.

    The new file has another name, so that a retry reads the same input.
    """
    counts: Counter[str] = Counter()
    output = Output(targets)
    number = None
    for part, kind, content in blocks:
        number = part
        if kind == "counts":
            counts.update(json.loads(bytes(content)))
        else:
            output.add(kind, content)
    if number is None:
        return
    output.add_written(number)
    yield _result(number, counts, output.write(number, _UNIQUE), np.zeros(0, np.uint64))


def _write_features(blocks: Blocks, *, targets: Targets) -> Batches:
    """Write the features of a part under a third name."""
    output, number = Output(targets), None
    for part, kind, content in blocks:
        number = part
        if kind != "counts":
            output.add(kind, content)
    if number is not None:
        file = output.write_features(number, _LAST)
        yield _result(number, Counter(), file, np.zeros(0, np.uint64))


def _result(
    part: int, counts: Counter[str], file: Counter[str], repeated: np.ndarray
) -> pa.RecordBatch:
    row = {"part": pa.array([part], pa.int32()), "counts": [json.dumps(counts)],
           "file": [json.dumps(file)], "repeated": [repeated.tobytes()]}  # fmt: skip
    return pa.RecordBatch.from_pydict(row)
