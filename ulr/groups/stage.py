"""The stage `groups`: build the tables `groups` and `quarantine` from one date's click log."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from ulr.clicklog.contract import REASONS
from ulr.clicklog.events import Levels
from ulr.clicklog.quarantine import reasons_in
from ulr.clicklog.sources import LogSource, find_source
from ulr.config.inputs import Log
from ulr.config.settings import Groups
from ulr.engine.interface import Engine, partitions_for
from ulr.errors import InvalidData, TemporaryFailure
from ulr.groups.output import Targets
from ulr.groups.tasks import write_groups
from ulr.warehouse.stage import publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse
from ulr.warehouse.transaction import WriteTransaction

# The log's location, the memory limit and the floor do not change the published rows.
_NOT_IN_FINGERPRINT = ("log.path", "log.max_repeated_ids", "log.min_pages", "log.feedback")
# Settings that change nothing at these values; earlier versions did not have them.
_NEUTRAL: dict[str, Any] = {"table": None, "sql": None, "views": {}, "where": None, "columns": {},
            "first_position": 1, "features": None}  # fmt: skip
LOGGED = "logged_features"
_PARTITIONS = 8  # of a log of unknown size

_READINGS = 3  # of a log that changes while it is read


def build_groups(
    engine: Engine,
    warehouse: Warehouse,
    date: dt.date,
    *,
    log: Log,
    groups: Groups,
    force: bool = False,
) -> Outcome:
    """Publish `groups` and `quarantine` of one date's log, and `logged_features` if it has them.

    `quarantine` is always published, before `groups`. `groups` is not published if too many rows
    broke the contract, or too few pages are valid. If a file of the log is replaced, added or
    removed while the log is read, the log is read again.
    """
    for _ in range(_READINGS):
        source = find_source(engine, log, date)
        try:
            outcome = _publish(engine, warehouse, source, date, log=log, groups=groups, force=force)
        except _LogChanged as changed:
            difference = str(changed)
            continue
        finally:
            source.close()
        _refuse_if_few(outcome.manifest.counts, log.min_pages, date)
        return outcome
    raise TemporaryFailure(
        f"{date}: the log changed {_READINGS} times while it was read, at last {difference}; "
        "nothing was published, run again when the log is complete"
    )


class _LogChanged(Exception):
    """The log has other files than those that were listed before reading."""


def _publish(
    engine: Engine,
    warehouse: Warehouse,
    source: LogSource,
    date: dt.date,
    *,
    log: Log,
    groups: Groups,
    force: bool,
) -> Outcome:
    levels = Levels.of(log.feedback).names
    side_tables = [("quarantine", f"dt={date}")]
    if log.feature_count:
        side_tables.append((LOGGED, f"dt={date}"))

    def write(
        groups_table: WriteTransaction,
        quarantine_table: WriteTransaction,
        *features_tables: WriteTransaction,
    ) -> None:
        features_url = features_tables[0].url if features_tables else None
        with _unchanged(source):
            counts = write_groups(
                engine,
                source.pages(engine),
                Targets(
                    groups_table.url, quarantine_table.url, features_url, levels, log.feature_names
                ),
                partitions=partitions_of(source, groups),
                max_position=groups.max_position,
                max_repeated_ids=log.max_repeated_ids,
            )
        quarantine_table.publish(counts)
        _refuse_if_broken(counts, log.max_bad_fraction, date)
        _refuse_if_few(counts, log.min_pages, date)
        for table in features_tables:
            table.publish({"rows": counts["features"], "bytes": counts["features_bytes"]})
        groups_table.publish(counts)

    outcome, _ = publish_if_changed(
        warehouse,
        "groups",
        f"dt={date}",
        inputs=source.identity,
        settings={"log": _settings(log), "groups": groups.model_dump()}
        | ({"levels": list(levels)} if levels else {}),
        not_in_fingerprint=_NOT_IN_FINGERPRINT,
        side_tables=side_tables,
        write=write,
        force=force,
        by_content=source.identity is None,
    )
    return outcome


def _settings(log: Log) -> dict[str, Any]:
    """Return the settings that describe the log."""
    values = log.model_dump()
    return {n: v for n, v in values.items() if n not in _NEUTRAL or v != _NEUTRAL[n]}


@contextlib.contextmanager
def _unchanged(source: LogSource) -> Iterator[None]:
    """Raise _LogChanged if the log has changed afterwards, also instead of another error."""
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    difference = source.difference()
    if difference:
        raise _LogChanged(difference) from failure
    if failure is not None:
        raise source.failure(failure) or failure


def partitions_of(source: LogSource, groups: Groups) -> int:
    """Return the number of files of a date's groups: as set, or from the bytes of its log.

    The number depends on the log only, because it decides which files are written.
    """
    if groups.partitions is not None:
        return groups.partitions
    size = source.size()
    return _PARTITIONS if size is None else partitions_for(size)


def _refuse_if_broken(counts: Counter[str], max_fraction: float, date: dt.date) -> None:
    """Raise InvalidData if too many rows broke the contract, with the most frequent reasons."""
    bad, read = reasons_in(counts).total(), counts["read"]
    if read and bad / read > max_fraction:
        raise InvalidData(
            f"{date}: {bad:,} of {read:,} rows ({bad / read:.1%}) broke the contract, more than "
            f"log.max_bad_fraction = {max_fraction:.1%}: {_top_reasons(counts)}; the rows are in "
            "`quarantine`, groups were not published"
        )


def _refuse_if_few(counts: Mapping[str, int], min_pages: int, date: dt.date) -> None:
    """Raise InvalidData if a date has fewer valid pages than it must have."""
    pages = counts.get("pages", 0)
    if pages < min_pages:
        top = _top_reasons(counts)
        raise InvalidData(
            f"{date}: {pages:,} valid pages in {counts.get('read', 0):,} rows, fewer than "
            f"log.min_pages = {min_pages:,}{': ' if top else ''}{top}; check that the log of the "
            "date is complete, or lower log.min_pages"
        )


def _top_reasons(counts: Mapping[str, int]) -> str:
    frequent = reasons_in(counts).most_common(3)
    return ", ".join(f"{name} {n:,} ({REASONS[name]})" for name, n in frequent)
