"""A click log in a frame as the log of a workspace, and its groups by the stage `groups`."""

from __future__ import annotations

import datetime as dt
import warnings
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from pydantic import ValidationError

from ulr.clicklog.conform import conform
from ulr.clicklog.contract import REASONS
from ulr.clicklog.quarantine import reasons_in
from ulr.config.inputs import Log
from ulr.config.settings import Groups, Settings
from ulr.engine.columns import whole
from ulr.errors import InvalidData, UserError
from ulr.groups.stage import build_groups
from ulr.ml.frames import to_table
from ulr.ml.workspace import Workspace
from ulr.warehouse.schema import (
    FEATURES,
    FEEDBACK,
    TIMESTAMP,
    impression_schema,
    page_schema,
    with_columns,
)

_FOLDER = "log"
_DAY_US = 86_400_000_000
_UNKNOWN_TIME = 1_577_836_800_000_000  # 2020-01-01: without shown_at all pages are of one date
_TIME = pa.schema([page_schema.field("shown_at")])


def read_pages(
    work: Workspace,
    pages: Any,
    settings: Settings,
    *,
    feedback: Mapping[str, float] | None = None,
    features: Any = None,
) -> list[dt.date]:
    """Build the groups of a frame of pages; return their dates, in order.

    pages: a frame with the columns of a page log (doc_ids, clicks) or of an impression log (doc_id,
    position, clicked). shown_at may be missing; so may session_id, if each row is a page. Of
    several pages of a date with one session_id the earliest counts. Pages that break the contract
    are left out with a warning, or raise InvalidData if they are more than log.max_bad_fraction.
    feedback, features: the settings log.feedback and log.features, for columns of these names.
    """
    table = _with_ids(to_table(pages, "pages"))
    log = _log_of(work, table, settings.log, feedback, features)
    days = _days(table)
    dates = [dt.date(1970, 1, 1) + dt.timedelta(days=int(day)) for day in np.unique(days)]
    for date in dates:
        rows = table if len(dates) == 1 else table.filter(pa.array(days == _number(date)))
        work.write(rows, _FOLDER, f"dt={date}", "part-00000.parquet")
    counts = groups_of(work, log, settings.groups, dates)
    _report_bad(counts, settings.log.max_bad_fraction)
    if not counts["pages"]:
        raise InvalidData("pages has no valid page")
    return dates


def groups_of(work: Workspace, log: Log, groups: Groups, dates: list[dt.date]) -> Counter[str]:
    """Build the groups of the dates of a log; return the counts of all dates."""
    total: Counter[str] = Counter()
    for date in dates:
        outcome = build_groups(work.engine, work.warehouse, date, log=log, groups=groups)
        total.update(outcome.manifest.counts)
    return total


def lenient(log: Log, **changes: Any) -> Log:
    """Return the settings of a log whose bad pages are judged by the caller."""
    own = {"max_bad_fraction": 1.0, "min_pages": 0}
    try:
        return Log.model_validate({**log.model_dump(), **own, **changes})
    except ValidationError as error:
        raise UserError(str(error.errors()[0]["msg"]).removeprefix("Value error, ")) from None


def _log_of(
    work: Workspace,
    table: pa.Table,
    log: Log,
    feedback: Mapping[str, float] | None,
    features: Any,
) -> Log:
    """Return the settings of the log; keep the columns that it has."""
    layout = "page" if "doc_ids" in table.column_names else "impression"
    changes = {"path": str(work.folder / _FOLDER), "layout": layout, "format": "parquet"}
    given = {FEEDBACK: feedback, FEATURES: features}
    for name, value in given.items():
        if value is not None and name not in table.column_names:
            raise UserError(f"{name}= is given, and pages has no column {name}")
    own = {name: value for name, value in given.items() if value is not None}
    return lenient(log, **changes, **own)


def _with_ids(table: pa.Table) -> pa.Table:
    """Return the columns of the contract, with sessions and times where they are missing."""
    names = table.column_names
    by_page = "doc_ids" in names
    required, clicks = ["query_id", "doc_ids"], "clicks"
    if not by_page:
        required, clicks = ["session_id", "query_id", "doc_id", "position"], "clicked"
    if FEEDBACK not in names:
        required.append(clicks)
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
        time = pa.repeat(pa.scalar(_UNKNOWN_TIME, TIMESTAMP), rows)
        table = table.append_column("shown_at", time)
    schema = with_columns(page_schema if by_page else impression_schema, (FEEDBACK, FEATURES))
    return table.select([name for name in schema.names if name in table.column_names])


def _days(table: pa.Table) -> np.ndarray:
    """Return the day of each row since 1970-01-01 (int64); rows without a valid time take the
    first day of the others, where they are quarantined."""
    batches = table.select(["shown_at"]).combine_chunks().to_batches()
    times = [whole(conform(batch, "pages", _TIME)["shown_at"]) for batch in batches]
    if not times:
        return np.zeros(0, np.int64)
    column = pa.chunked_array(times).cast(pa.int64())
    known = column.is_valid().to_numpy()
    days = column.fill_null(_UNKNOWN_TIME).to_numpy() // _DAY_US
    first = days[known].min(initial=np.iinfo(np.int64).max) if known.any() else days.min()
    days = np.where(known, days, first)
    return np.clip(days, _number(dt.date(1970, 1, 1)), _number(dt.date(9999, 12, 31)))


def _number(date: dt.date) -> int:
    return (date - dt.date(1970, 1, 1)).days


def _report_bad(counts: Counter[str], max_fraction: float) -> None:
    reasons = reasons_in(counts)
    bad, every = reasons.total(), counts["read"]
    if not bad:
        return
    top = ", ".join(f"{name} {n:,} ({REASONS[name]})" for name, n in reasons.most_common(3))
    text = f"{bad:,} of {every:,} pages broke the contract: {top}"
    if bad > max_fraction * every:
        raise InvalidData(f"{text}; correct them")
    warnings.warn(f"{text}; they are left out", UserWarning, stacklevel=4)
