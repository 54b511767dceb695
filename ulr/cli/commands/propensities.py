"""Estimate how likely each position, and each pair, is to be examined; publish both tables."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path

from pyspark.sql import SparkSession

from ulr.cli.arguments import check_target
from ulr.cli.progress import watched
from ulr.cli.terminal import Answer, say
from ulr.config.settings import Propensities, Settings
from ulr.engine.session import start_session
from ulr.groups.window import window_dates
from ulr.propensity.diagnostics import Finding
from ulr.propensity.stage import build_propensities, drift
from ulr.propensity.tables import as_json, curve_table, summary_lines
from ulr.report.charts.propensities import propensities_svg
from ulr.report.tables import read_truth
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr propensities --date 2026-01-03 --figure theta.svg"


def configure(parser: argparse.ArgumentParser) -> None:
    """The window, and what to show."""
    parser.add_argument(
        "--date", required=True, help="last day of the window, or the whole window as D1..D2"
    )
    parser.add_argument("--figure", metavar="FILE", help="also draw the curves, as SVG")
    parser.add_argument(
        "--truth", metavar="FILE", help="a simulation's examination.parquet to draw"
    )
    parser.add_argument("--drift", metavar="D1..D2", help="compare with this earlier window")
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Estimate, publish, and say what can and cannot be believed."""
    how = settings.propensities
    check_target("--figure", args.figure, ".svg")
    truth = read_truth(args.truth) if args.truth else []
    warehouse = Warehouse(settings.warehouse.path)
    dates = window_dates(warehouse, args.date, how.window_days)
    start = partial(start_session, "propensities", settings.spark)
    with watched(f"propensities {dates[0]}..{dates[-1]}"):
        again = args.force or args.json or bool(args.figure)  # both tell more than the tables
        outcome = build_propensities(start, warehouse, dates, how, force=again)
    span = f"{dates[0]}..{dates[-1]}, {len(dates)} days"
    if outcome.skipped:
        say(f"propensities {span}: unchanged, skipped")
    else:
        say(f"propensities {span}:")
    for line in summary_lines(outcome.results):
        say(f"  {line}")
    findings = _drift(start, warehouse, dates, args.drift, how) if args.drift else []
    for finding in findings:
        say(f"  drift {finding.verdict}: {finding.message} (p = {finding.p_value:.2g})")
    if args.figure:
        figure = propensities_svg(curve_table(outcome.results).to_pylist(), truth)
        Path(args.figure).write_text(figure, encoding="utf-8")
    found = {} if outcome.skipped else as_json(outcome.results)
    return Answer(outcome.to_json() | found | {"drift": [asdict(f) for f in findings]})


def _drift(
    start: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: list[dt.date],
    earlier: str,
    how: Propensities,
) -> list[Finding]:
    windows = [window_dates(warehouse, earlier, how.window_days), dates]
    files = [[f for d in w for f in warehouse.files("groups", f"dt={d}")] for w in windows]
    return drift(start(), warehouse.storage.url, files, how)
