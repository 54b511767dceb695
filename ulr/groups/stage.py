"""A date's groups, from log to published table: skipped if unchanged, refused if too broken."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Callable

from pyspark.sql import SparkSession

from ulr.clicklog.contract import REASONS
from ulr.clicklog.files import find_log
from ulr.clicklog.pages import open_pages
from ulr.config.settings import Groups, Log
from ulr.errors import InvalidData
from ulr.groups.tasks import write_groups
from ulr.warehouse.stage import fingerprint_of
from ulr.warehouse.tables import Outcome, Warehouse

# Where the log lies and how much memory may be used do not change what is published.
_NOT_IN_FINGERPRINT = ("path", "max_repeated_ids")


def build_groups(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    date: dt.date,
    *,
    log: Log,
    groups: Groups,
    force: bool = False,
) -> Outcome:
    """Read the date's log and publish `groups` and `quarantine`; quarantine first, so that groups
    are never newer than the record of what they left out."""
    files = find_log(log.path, date)
    settings = {"log": log.model_dump(), "groups": groups.model_dump()}
    inputs = files.identity
    matters = {k: v for k, v in settings["log"].items() if k not in _NOT_IN_FINGERPRINT}
    identity = fingerprint_of(inputs=inputs, settings=matters | settings["groups"])
    partition = f"dt={date}"
    published = warehouse.current("groups", partition)
    if published and published.fingerprint == identity and not force:
        return Outcome(published, skipped=True)
    with (
        warehouse.writing("groups", partition, identity) as good,
        warehouse.writing("quarantine", partition, identity) as bad,
    ):
        counts = write_groups(
            open_pages(start_spark(), files, log),
            groups_url=good.url,
            quarantine_url=bad.url,
            partitions=groups.partitions,
            max_position=groups.max_position,
            max_repeated_ids=log.max_repeated_ids,
        )
        record = {"counts": dict(counts), "inputs": inputs, "settings": settings}
        bad.publish(identity, **record)
        refuse_if_broken(counts, log.max_bad_fraction, f"{date}")
        return Outcome(good.publish(identity, **record), skipped=False)


def refuse_if_broken(counts: Counter[str], max_share: float, what: str) -> None:
    """Stop when too many rows broke the contract, naming the commonest reasons."""
    reasons = Counter({k[4:]: n for k, n in counts.items() if k.startswith("bad:")})
    bad, read = sum(reasons.values()), counts["read"]
    if read and bad / read > max_share:
        top = ", ".join(f"{name} {n:,} ({REASONS[name]})" for name, n in reasons.most_common(3))
        raise InvalidData(
            f"{what}: {bad:,} of {read:,} rows ({bad / read:.1%}) broke the contract, over "
            f"log.max_bad_fraction = {max_share:.1%}: {top}; the rows are in `quarantine`, "
            "groups were not published"
        )
