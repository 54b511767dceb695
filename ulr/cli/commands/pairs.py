"""Make the weighted pairs of a window of dates from its groups, propensities and features."""

from __future__ import annotations

import argparse
from functools import partial

from ulr.cli.progress import watched
from ulr.cli.terminal import Answer, say
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.engine.session import start_session
from ulr.pairs.stage import build_pairs
from ulr.warehouse.tables import Outcome, Warehouse

EXAMPLE = "ulr pairs --date 2026-01-01..2026-01-03 --set pairs.method=joint"


def configure(parser: argparse.ArgumentParser) -> None:
    """The window, and whether an unchanged one is done again."""
    parser.add_argument("--date", required=True, help="a date, or a range D1..D2: the window")
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Build the pairs of the configured method."""
    method = settings.pairs.method
    with watched(f"pairs {method}"):
        outcome = build_pairs(
            partial(start_session, "pairs", settings.spark),
            Warehouse(settings.warehouse.path),
            parse_dates(args.date),
            pairs=settings.pairs,
            features=settings.features.path,
            force=args.force,
        )
    say(f"pairs {method}: {describe(outcome)}")
    return Answer(outcome.to_json())


def describe(outcome: Outcome) -> str:
    """What came in, what came out, and everything that was left out."""
    counts = outcome.manifest.counts
    text = (
        f"{counts.get('sessions', 0):,} sessions in {counts.get('groups', 0):,} rankings -> "
        f"{counts.get('pairs', 0):,} pairs of {counts.get('documents', 0):,} documents"
    )
    for name, words in (
        ("documents_without_features", "documents without features dropped"),
        ("documents_too_deep", "shown below the last known position left out"),
        ("duplicate_features", "repeated feature rows ignored"),
        ("groups_without_pairs", "rankings without a pair"),
        ("queries_without_pairs", "queries without a pair"),
    ):
        text += f"; {counts[name]:,} {words}" if counts.get(name) else ""
    return f"unchanged, skipped ({text})" if outcome.skipped else text
