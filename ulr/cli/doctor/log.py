"""The click log of a date: found, readable, and with the columns of the contract."""

from __future__ import annotations

import datetime as dt
from importlib import import_module

from ulr.cli.doctor.checks import ERROR, OK, WARNING, Finding
from ulr.config.inputs import Log
from ulr.config.settings import Settings
from ulr.dates import has_date, parse_dates
from ulr.engine.interface import Engine
from ulr.errors import UserError
from ulr.warehouse.storage import Storage

_ENOUGH_PAGES = 100  # among which one should have a click


def log_is_readable(settings: Settings, date: str | None) -> Finding:
    """Open the log of a date as `groups` does, and check the first rows."""
    if _will_be_simulated(settings):
        return Finding(OK, f"nothing at {settings.log.source} yet; `ulr simulate` writes it")
    engine = import_module("ulr.cli.engines").make_engine("doctor", settings)
    day = _date(settings.log, date)
    try:
        return _finding(settings.log, day, engine)
    except UserError as error:
        if date is None and _is_dated(settings.log):
            return Finding(WARNING, f"{error}", "ulr doctor --date DATE, a date that the log has")
        raise


def _finding(log: Log, day: dt.date, engine: Engine) -> Finding:
    sources, describe = (import_module(f"ulr.clicklog.{n}") for n in ("sources", "describe"))
    source = sources.find_source(engine, log, day)
    try:
        sample = describe.describe_log(source, log)
    finally:
        source.close()
    message = f"{log.source} of {day}: {sample.text}"
    if sample.rows and sample.bad_fraction > log.max_bad_fraction:
        fix = f"log.columns, or log.max_bad_fraction={sample.bad_fraction:.2f} if they are expected"
        return Finding(ERROR, f"{message}; more are bad than log.max_bad_fraction", fix)
    if not sample.rows:
        return Finding(WARNING, message, "ulr doctor --date DATE, a date that the log has")
    if not sample.clicks and sample.rows >= _ENOUGH_PAGES and not log.feedback:
        fix = (
            "compare the ids of documents and of clicks; log.columns.clicks, or the join of log.sql"
        )
        return Finding(WARNING, f"{message}: none has a click", fix)
    return Finding(OK, message)


def _date(log: Log, date: str | None) -> dt.date:
    """Return the last date given, else the last dt=DATE folder of the log, else yesterday."""
    if date is not None:
        return parse_dates(date)[-1]
    if log.path and not has_date(log.path):
        folders = Storage(log.path).folders() if not any(c in log.path for c in "*[") else []
        days = sorted(f.removeprefix("dt=") for f in folders if f.startswith("dt="))
        if days:
            return parse_dates(days[-1])[0]
    return dt.datetime.now(dt.timezone.utc).date() - dt.timedelta(days=1)


def _is_dated(log: Log) -> bool:
    views = [text for view in log.views.values() for text in (view.path, view.table)]
    return has_date(log.path, log.table, log.sql, log.where, *views)


def _will_be_simulated(settings: Settings) -> bool:
    """Return whether the log is that of `ulr simulate`, which was not run yet."""
    log, folder = settings.log, settings.simulate.path
    paths = [path for path in (log.path, *(v.path for v in log.views.values())) if path]
    inside = [path.startswith(f"{folder}/") for path in paths]
    return any(inside) and not Storage(folder).exists()
