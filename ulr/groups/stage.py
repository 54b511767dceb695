"""The stage `groups`: one date's click log to the tables `groups` and `quarantine`."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable

from pyspark.sql import SparkSession

from ulr.clicklog.contract import REASONS
from ulr.clicklog.files import find_log
from ulr.clicklog.pages import open_pages
from ulr.clicklog.quarantine import reasons_in
from ulr.config.settings import Groups, Log
from ulr.errors import InvalidData
from ulr.groups.tasks import write_groups
from ulr.warehouse.stage import publish_if_changed
from ulr.warehouse.tables import Outcome, Warehouse, WriteTransaction

# The log's location and the memory limit do not change the published rows.
_NOT_IN_FINGERPRINT = ("log.path", "log.max_repeated_ids")


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

    Quarantine is published first, and also if too many rows broke the contract: only the groups
    are withheld then.
    """
    files = find_log(log.path, date)

    def write(good: WriteTransaction, bad: WriteTransaction) -> None:
        counts = write_groups(
            open_pages(start_spark(), files, log),
            groups_url=good.url,
            quarantine_url=bad.url,
            partitions=groups.partitions,
            max_position=groups.max_position,
            max_repeated_ids=log.max_repeated_ids,
        )
        bad.publish(counts)
        _refuse_if_broken(counts, log.max_bad_fraction, date)
        good.publish(counts)

    outcome, _ = publish_if_changed(
        warehouse,
        "groups",
        f"dt={date}",
        inputs=files.identity,
        settings={"log": log.model_dump(), "groups": groups.model_dump()},
        not_in_fingerprint=_NOT_IN_FINGERPRINT,
        side_tables=[("quarantine", f"dt={date}")],
        write=write,
        force=force,
    )
    return outcome


def _refuse_if_broken(counts: Counter[str], max_fraction: float, date: dt.date) -> None:
    """Raise InvalidData if too many rows broke the contract, with the most frequent reasons."""
    reasons = reasons_in(counts)
    bad, read = reasons.total(), counts["read"]
    if read and bad / read > max_fraction:
        top = ", ".join(f"{name} {n:,} ({REASONS[name]})" for name, n in reasons.most_common(3))
        raise InvalidData(
            f"{date}: {bad:,} of {read:,} rows ({bad / read:.1%}) broke the contract, over "
            f"log.max_bad_fraction = {max_fraction:.1%}: {top}; the rows are in `quarantine`, "
            "groups were not published"
        )
