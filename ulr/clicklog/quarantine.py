"""The table `quarantine`: pages that broke the contract, with the first broken rule as reason."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ulr.clicklog.contract import CheckedPages
from ulr.clicklog.encoding import remove_rows
from ulr.clicklog.raw import cell, row_text, shorten
from ulr.engine.columns import hashes, lists
from ulr.kernels.hashing import hash_lists
from ulr.warehouse.schema import (
    FEATURES,
    FEEDBACK,
    pages_of,
    quarantine_schema_of,
    reading,
    recorded_of,
)
from ulr.warehouse.tables import Warehouse

LENGTH = 300  # characters of a row that an example shows
_LISTS = ("doc_ids", "clicks", FEEDBACK)
# Reasons whose rows have their text in `raw`, with the columns that are not recorded besides.
_IN_RAW: dict[str, Sequence[str]] = {"too_large": _LISTS, "date_out_of_range": ("shown_at",),
           "features_mismatch": (), "wrong_vector": ()}  # fmt: skip
_BAD = "bad:"  # prefix of the reasons among a date's counts


def quarantine_rows(pages: CheckedPages) -> pa.Table:
    """Return the bad pages of a batch as they were read, with `quarantine_schema`.

    A value that is too large, a time that Python cannot represent, and features are only in `raw`.
    """
    bad = pa.array(pages.bad)
    names = pages.batch.schema.names
    rows = pages.batch.take(bad).cast(reading(pages_of(names)))
    reason, schema = pages.reason.take(bad), quarantine_schema_of(recorded_of(names))
    columns = {name: rows[name] for name in schema.names[1:]}
    for name, large in _IN_RAW.items():
        chosen = pc.and_(pc.equal(reason, name), rows["raw"].is_null())
        if pc.any(chosen).as_py():
            wrong = chosen.to_numpy(zero_copy_only=False)
            columns["raw"] = pc.if_else(chosen, _texts(rows, wrong), columns["raw"])
            columns |= {n: remove_rows(columns[n], wrong) for n in large if n in columns}
    return pa.table([reason, *columns.values()], schema=schema)


def _texts(rows: pa.RecordBatch, chosen: np.ndarray) -> pa.Array:
    names = rows.schema.names
    pages = rows.select([*recorded_of(names).names, *([FEATURES] if FEATURES in names else [])])
    return pa.array([row_text(pages.slice(at, 1)) if c else None for at, c in enumerate(chosen)],
                    pa.string())  # fmt: skip


def count_reasons(rows: pa.Table) -> dict[str, int]:
    """Return the counts of quarantined rows by reason, under the names that manifests use."""
    counts = rows["reason"].value_counts().to_pylist()
    return {_BAD + entry["values"]: entry["counts"] for entry in counts}


def reasons_in(counts: Mapping[str, int]) -> Counter[str]:
    """Return the number of quarantined rows by reason, from the counts of a manifest."""
    return Counter({k.removeprefix(_BAD): n for k, n in counts.items() if k.startswith(_BAD)})


def sort_quarantine(rows: pa.Table) -> pa.Table:
    """Sort the rows by every column, so that the order does not depend on the tasks' input."""
    rows = rows.combine_chunks()
    names = recorded_of(rows.column_names).names
    keys = {n: rows[n] for n in ("source", "reason", "session_id", "raw", *names)}
    keys |= {n: _hash(rows[n]) for n in _LISTS if n in names}
    order = [(name, "ascending") for name in keys]
    return rows.take(pc.sort_indices(pa.table(keys), sort_keys=order))


def _hash(column: pa.ChunkedArray) -> np.ndarray:
    starts, lengths, values = lists(column)
    if pa.types.is_boolean(values.type):
        return hash_lists(starts, lengths, values.cast(pa.uint64()).fill_null(2).to_numpy())
    return hash_lists(starts, lengths, hashes(values))


def examples_of(warehouse: Warehouse, dates: Sequence[str], each: int = 2) -> list[dict[str, str]]:
    """Return up to `each` rows of every reason, the latest dates first, sorted by reason."""
    taken: Counter[str] = Counter()
    examples = []
    for date in reversed(dates):
        manifest = warehouse.current("quarantine", f"dt={date}")
        wanted = {r for r in reasons_in(manifest.counts if manifest else {}) if taken[r] < each}
        for reason, batch in _rows(warehouse, f"dt={date}") if wanted else ():
            if taken[reason] < each:
                taken[reason] += 1
                row = {name: cell(batch[name][0]) for name in batch.schema.names}
                examples.append({"date": date, "reason": reason, "row": _text(row),
                                 "source": _file(row["source"])})  # fmt: skip
                if all(taken[r] >= each for r in wanted):
                    break
    return sorted(examples, key=lambda e: e["reason"])


def _rows(warehouse: Warehouse, partition: str) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the reason of each row, and the row as a batch."""
    for path in warehouse.files("quarantine", partition):
        with warehouse.storage.fs.open_input_file(path) as stream:
            for batch in pq.ParquetFile(stream).iter_batches(4096):
                for at, reason in enumerate(batch["reason"].to_pylist()):
                    yield reason, batch.slice(at, 1)


def _text(row: dict[str, Any]) -> str:
    """Return the source text of an unreadable row, or the columns of a readable one."""
    content = {n: row[n] for n in recorded_of(row).names if row[n] is not None}
    text = row["raw"] or json.dumps(content, default=str, ensure_ascii=False)
    return shorten(text, LENGTH)


def _file(source: str | None) -> str:
    """Return the last two names of a path."""
    return "/".join((source or "").rsplit("/", 2)[-2:])
