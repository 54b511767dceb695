"""Estimate how likely each position, and each pair of positions, is to be examined."""

from __future__ import annotations

import argparse
import datetime as dt
from dataclasses import asdict
from pathlib import Path

from ulr.cli.arguments import WINDOW, add_date, add_force, check_target
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.engine.interface import Engine
from ulr.groups.window import window_dates
from ulr.propensity.findings import Finding
from ulr.propensity.stage import build_propensities, drift
from ulr.propensity.tables import as_json, curve_table, summary_lines
from ulr.report.charts.propensities import propensities_svg
from ulr.report.tables import read_truth
from ulr.warehouse.tables import Warehouse, open_warehouse

EXAMPLE = "ulr propensities --date 2026-01-03 --figure theta.svg"


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, WINDOW)
    parser.add_argument("--figure", metavar="FILE", help="also draw the curves, as SVG")
    parser.add_argument(
        "--truth", metavar="FILE", help="examination.parquet of a simulation, drawn as well"
    )
    parser.add_argument("--drift", metavar="D1..D2", help="compare with this earlier window")
    add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Estimate, publish, and print the estimates with their diagnostics."""
    check_target("--figure", args.figure, ".svg")
    truth = read_truth(args.truth) if args.truth else []
    warehouse = open_warehouse(settings.warehouse)
    dates = window_dates(warehouse, args.date, settings.propensities.window_days)
    engine = open_engine("propensities", settings)
    with TERMINAL.tasks(f"propensities {dates[0]}..{dates[-1]}"):
        force = args.force or args.json or bool(args.figure)  # both need more than the tables
        outcome = build_propensities(
            engine, warehouse, dates, settings.propensities, features=settings.features,
            plan_file=settings.plan_swaps.plan, force=force,
        )  # fmt: skip
    span = f"{dates[0]}..{dates[-1]}, {len(dates)} days"
    print_line(f"propensities {span}:{' unchanged, skipped' if outcome.skipped else ''}")
    for line in summary_lines(outcome.results):
        print_line(f"  {line}")
    if outcome.change:
        print_line(f"  {outcome.change}")
    findings = _drift(engine, warehouse, dates, args.drift, settings)
    for finding in findings:
        print_line(f"  drift {finding.verdict}: {finding.message} (p = {finding.p_value:.2g})")
    if args.figure:
        figure = propensities_svg(curve_table(outcome.results).to_pylist(), truth)
        Path(args.figure).write_text(figure, encoding="utf-8")
    estimates = {} if outcome.skipped else as_json(outcome.results)
    drifts = {"drift": [asdict(finding) for finding in findings]}
    return CommandResult(outcome.to_json() | estimates | drifts)


def _drift(
    engine: Engine,
    warehouse: Warehouse,
    dates: list[dt.date],
    earlier: str | None,
    settings: Settings,
) -> list[Finding]:
    if earlier is None:
        return []
    windows = [window_dates(warehouse, earlier, settings.propensities.window_days), dates]
    return drift(engine, warehouse, windows, settings.propensities, settings.features)
