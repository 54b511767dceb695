"""A click log in a frame as groups: one table for each of its dates, as the service stores them."""

from __future__ import annotations

import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from ulr.clicklog.conform import conform
from ulr.clicklog.contract import REASONS, CheckedPages, check_pages
from ulr.clicklog.impressions import assemble
from ulr.config.settings import Settings
from ulr.engine.columns import hashes, whole
from ulr.errors import InvalidData, UserError
from ulr.groups.histograms import canonical, fold_pages, merge
from ulr.ml.frames import to_table
from ulr.warehouse.schema import TIMESTAMP, impression_schema, page_schema

BATCH_ROWS = 65_536
_DAY = 86_400_000_000  # microseconds
_SOURCE = "pages"
_UNKNOWN_TIME = 1_577_836_800_000_000  # 2020-01-01: without shown_at all pages are of one date


def groups_by_date(pages: Any, settings: Settings) -> list[pa.Table]:
    """Return the groups of each date, in order: rows of `groups_schema`.

    pages: a frame with the columns of a page log (doc_ids, clicks) or of an impression log (doc_id,
    position, clicked). shown_at may be missing; so may session_id, if each row is a page. Of
    several pages with one session_id the earliest counts. Pages that break the contract are left
    out with a warning, or raise InvalidData if they are more than log.max_bad_fraction.
    """
    checked = [check_pages(batch) for batch in _read(to_table(pages, "pages"))]
    _report_bad(checked, settings.log.max_bad_fraction)
    tables: dict[int, list[pa.Table]] = defaultdict(list)
    limit = settings.groups.max_position
    for batch, rows in zip(checked, _unique_rows(checked), strict=True):
        days = _times(batch) // _DAY
        for day in np.unique(days[rows]).tolist():
            tables[day].append(fold_pages(batch, rows[days[rows] == day], limit))
    if not tables:
        raise InvalidData("pages has no valid page")
    return [canonical(merge(tables[day])) for day in sorted(tables)]


def _read(table: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield pages with `read_schema`."""
    names = table.column_names
    by_page = "doc_ids" in names
    required = ["query_id", "doc_ids", "clicks"]
    if not by_page:
        required = ["session_id", "query_id", "doc_id", "position", "clicked"]
    if missing := [name for name in required if name not in names]:
        raise UserError(
            f"pages has no column {missing[0]}; expected the columns of a page log (query_id, "
            "doc_ids, clicks) or of an impression log (session_id, query_id, doc_id, position, "
            "clicked)"
        )
    rows = table.num_rows
    if "session_id" not in names:
        table = table.append_column("session_id", pa.array(np.arange(rows)).cast(pa.string()))
    if "shown_at" not in names:
        table = table.append_column(
            "shown_at", pa.repeat(pa.scalar(_UNKNOWN_TIME, TIMESTAMP), rows)
        )
    schema = page_schema if by_page else impression_schema
    batches = table.select([n for n in schema.names if n in table.column_names])
    typed = (conform(batch, _SOURCE, schema) for batch in batches.to_batches(BATCH_ROWS))
    return typed if by_page else assemble(typed)


def _report_bad(checked: list[CheckedPages], max_fraction: float) -> None:
    reasons: Counter[str] = Counter()
    for pages in checked:
        reasons.update(whole(pages.reason).drop_null().to_pylist())
    bad, every = reasons.total(), sum(pages.batch.num_rows for pages in checked)
    if not bad:
        return
    top = ", ".join(f"{name} {n:,} ({REASONS[name]})" for name, n in reasons.most_common(3))
    text = f"{bad:,} of {every:,} pages broke the contract: {top}"
    if bad > max_fraction * every:
        raise InvalidData(f"{text}; correct them")
    warnings.warn(f"{text}; they are left out", UserWarning, stacklevel=5)


def _unique_rows(checked: list[CheckedPages]) -> list[np.ndarray]:
    """Return the good pages of each batch (int64) without repeated sessions."""
    good = [pages.good for pages in checked]
    if not good:
        return []
    keys, times = [], []
    for pages, rows in zip(checked, good, strict=True):
        keys.append(hashes(pages.batch["session_id"])[rows])
        times.append(_times(pages)[rows])
    key, time = np.concatenate(keys), np.concatenate(times)
    order = np.lexsort((time, key))
    first = np.append(True, key[order][1:] != key[order][:-1])
    kept = np.zeros(key.size, bool)
    kept[order[first[: key.size]]] = True
    ends = np.cumsum([rows.size for rows in good])[:-1]
    return [rows[own] for rows, own in zip(good, np.split(kept, ends), strict=True)]


def _times(pages: CheckedPages) -> np.ndarray:
    """Return the time of each page in microseconds, int64; 0 for a page without one."""
    time: np.ndarray = whole(pages.batch["shown_at"]).cast(pa.int64()).fill_null(0).to_numpy()
    return time
