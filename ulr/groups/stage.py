"""The stage `groups`: build the tables `groups` and `quarantine` from one date's click log."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter
from collections.abc import Callable, Iterator, Mapping

from pyspark.sql import SparkSession

from ulr.clicklog.contract import REASONS
from ulr.clicklog.crashes import crash_of
from ulr.clicklog.events import Levels
from ulr.clicklog.files import LogFiles, find_log, list_log
from ulr.clicklog.pages import open_pages
from ulr.clicklog.quarantine import reasons_in
from ulr.config.settings import Groups, Log
from ulr.engine.tasks import partitions_for
from ulr.errors import InvalidData, TemporaryFailure
from ulr.groups.tasks import write_groups
from ulr.warehouse.stage import publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse
from ulr.warehouse.transaction import WriteTransaction

# A text log has about eight times the bytes of the same log as Parquet.
_TEXT_BYTES = 8

# The log's location, the memory limit and the floor do not change the published rows.
# Of log.feedback only the order of the events does.
_NOT_IN_FINGERPRINT = ("log.path", "log.max_repeated_ids", "log.min_pages", "log.feedback")

_READINGS = 3  # of a log that changes while it is read


def build_groups(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    date: dt.date,
    *,
    log: Log,
    groups: Groups,
    force: bool = False,
) -> Outcome:
    """Publish `groups` and `quarantine` of one date's log.

    `quarantine` is always published, before `groups`. `groups` is not published if too many rows
    broke the contract, or too few pages are valid. If a file of the log is replaced, added or
    removed while the log is read, the log is read again.
    """
    for _ in range(_READINGS):
        files = find_log(log.path, date)
        try:
            outcome = _publish(start_spark, warehouse, files, log=log, groups=groups, force=force)
        except _LogChanged as changed:
            difference = str(changed)
            continue
        _refuse_if_few(outcome.manifest.counts, log.min_pages, date)
        return outcome
    raise TemporaryFailure(
        f"{date}: the log changed {_READINGS} times while it was read, at last {difference}; "
        "nothing was published, run again when the log is complete"
    )


class _LogChanged(Exception):
    """The files of the log are others than those that were listed before reading."""


def _publish(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    files: LogFiles,
    *,
    log: Log,
    groups: Groups,
    force: bool,
) -> Outcome:
    date, levels = files.date, Levels.of(log.feedback).names

    def write(groups_table: WriteTransaction, quarantine_table: WriteTransaction) -> None:
        with _unchanged(files, log):
            counts = write_groups(
                open_pages(start_spark(), files, log),
                groups_url=groups_table.url,
                quarantine_url=quarantine_table.url,
                partitions=partitions_of(files, log, groups),
                max_position=groups.max_position,
                max_repeated_ids=log.max_repeated_ids,
            )
        quarantine_table.publish(counts)
        _refuse_if_broken(counts, log.max_bad_fraction, date)
        _refuse_if_few(counts, log.min_pages, date)
        groups_table.publish(counts)

    outcome, _ = publish_if_changed(
        warehouse,
        "groups",
        f"dt={date}",
        inputs=files.identity,
        settings={"log": log.model_dump(), "groups": groups.model_dump()}
        | ({"levels": list(levels)} if levels else {}),
        not_in_fingerprint=_NOT_IN_FINGERPRINT,
        side_tables=[("quarantine", f"dt={date}")],
        write=write,
        force=force,
    )
    return outcome


@contextlib.contextmanager
def _unchanged(files: LogFiles, log: Log) -> Iterator[None]:
    """Raise _LogChanged if the log has other files afterwards, also instead of another error."""
    failure: Exception | None = None
    try:
        yield
    except Exception as error:
        failure = error
    difference = files.difference(list_log(log.path, files.date))
    if difference:
        raise _LogChanged(difference) from failure
    if failure is not None:
        raise crash_of(failure, files, log.format) or failure


def partitions_of(files: LogFiles, log: Log, groups: Groups) -> int:
    """Return the number of files of a date's groups: as set, or from the bytes of its log.

    The number depends on the log only, because it decides which files are written.
    """
    if groups.partitions is not None:
        return groups.partitions
    size = sum(file.size for file in files.files)
    return partitions_for(size if log.format == "parquet" else size // _TEXT_BYTES)


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
