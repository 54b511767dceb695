"""Read the click log of a date and publish its groups and quarantine."""

from __future__ import annotations

import argparse
from functools import partial

from ulr.cli.progress import steps
from ulr.cli.terminal import Answer, say
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.engine.session import start_session
from ulr.groups.stage import build_groups
from ulr.warehouse.tables import Outcome, Warehouse

EXAMPLE = "ulr groups --date 2026-01-01..2026-01-03"


def configure(parser: argparse.ArgumentParser) -> None:
    """The date, and whether an unchanged one is done again."""
    parser.add_argument("--date", required=True, help="a date, or a range D1..D2")
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Build every date in turn."""
    warehouse = Warehouse(settings.warehouse.path)
    start = partial(start_session, "groups", settings.spark)
    dates, made = parse_dates(args.date), []
    with steps("groups", ["date"] * len(dates), "dates") as step:
        for date in dates:
            with step("date", f"groups {date}") as this:
                outcome = build_groups(
                    start,
                    warehouse,
                    date,
                    log=settings.log,
                    groups=settings.groups,
                    force=args.force,
                )
                this.skipped = outcome.skipped
            say(f"groups {date}: {describe(outcome)}")
            made.append(outcome.to_json())
    return Answer({"dates": made})


def describe(outcome: Outcome) -> str:
    """What came in, what came out, and everything that was left out."""
    counts = outcome.manifest.counts
    bad = sum(n for name, n in counts.items() if name.startswith("bad:"))
    text = (
        f"{counts['pages']:,} pages -> {counts.get('groups', 0):,} groups, "
        f"{counts.get('patterns', 0):,} patterns"
    )
    for number, words in (
        (bad, "quarantined"),
        (counts["duplicates"], "duplicate sessions dropped"),
        (counts["duplicate_rows"], "duplicate rows dropped"),
        (counts["cut"], "lists cut"),
    ):
        text += f"; {number:,} {words}" if number else ""
    if counts.get("read") == 0:
        text += "; the log has no row of this date"
    return f"unchanged, skipped ({text})" if outcome.skipped else text
