"""Design a swap experiment: its buckets, its duration and its cost in clicks."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import numpy as np
from rich.table import Table

from ulr.cli.arguments import WINDOW, add_date, check_target
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line, print_table
from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.experiments.plan import PlannedBucket, all_pairs_of, design
from ulr.experiments.vectors import with_vectors
from ulr.groups.window import window_dates
from ulr.propensity.stage import plain_rates
from ulr.warehouse.tables import Warehouse, open_warehouse

EXAMPLE = "ulr plan-swaps --date 2026-01-03 --out plan.json"


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, WINDOW)
    parser.add_argument(
        "--out",
        metavar="FILE",
        help="write the plan that the search servers read, with test vectors",
    )


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Count the clicks of the window and print the plan."""
    experiment = settings.plan_swaps
    check_target("--out", args.out)
    warehouse = open_warehouse(settings.warehouse)
    dates = window_dates(warehouse, args.date, settings.propensities.window_days)
    engine = open_engine("plan-swaps", settings)
    with TERMINAL.tasks("plan-swaps"):
        rates, pages = plain_rates(engine, warehouse, dates, positions=experiment.positions)
    theta, source = _current_theta(warehouse, experiment.positions)
    plan = design(
        rates,
        theta,
        pages_a_day=pages / len(dates),
        fraction=experiment.fraction,
        theta_error=experiment.theta_error,
        psi_error=experiment.psi_error,
        pairs=all_pairs_of(experiment.positions) if experiment.pairs else (),
    )
    if not np.isfinite(plan[0].days):
        unclicked = ", ".join(b.measures for b in plan if not np.isfinite(b.pages))
        raise UserError(f"cannot plan {unclicked} without clicks; lower plan_swaps.positions")
    print_table(_table(plan))
    lost = sum(b.clicks_lost_a_day for b in plan)
    clicks = float(np.diag(rates).sum()) * pages / len(dates)
    print_line(
        f"{plan[0].days:.1f} days at {experiment.fraction:.0%} of {pages / len(dates):,.0f} pages "
        "a day; "
        f"about {lost:,.0f} clicks lost a day ({lost / clicks:.2%}); theta from {source}"
    )
    if args.out:
        buckets = [{"bucket": b.bucket, "fraction": b.fraction} for b in plan]
        content = {"salt": experiment.salt, "buckets": buckets}
        Path(args.out).write_text(with_vectors(json.dumps(content)))
    return CommandResult(
        {"salt": experiment.salt, "days": plan[0].days, "clicks_lost_a_day": lost,
         "theta_from": source, "buckets": [asdict(b) for b in plan]}
    )  # fmt: skip


def _current_theta(warehouse: Warehouse, positions: int) -> tuple[np.ndarray, str]:
    """Return theta, as published or else 1 / k, and a description of its source."""
    curve = 1.0 / np.arange(1, positions + 1)
    if warehouse.current("propensities") is None:
        return curve, "1 / k (no propensities are published yet)"
    for row in warehouse.read("propensities").to_pylist():
        needed = row["segment"] is None and row["position"] <= positions
        if needed and row["theta"] is not None:
            curve[row["position"] - 1] = row["theta"]
    return curve, "the published propensities"


def _table(plan: list[PlannedBucket]) -> Table:
    table = Table("bucket", "measures")
    for heading in ("fraction", "pages", "days", "clicks lost a day"):
        table.add_column(heading, justify="right")
    for b in plan:
        numbers = (f"{b.fraction:.4%}", f"{b.pages:,.0f}", f"{b.days:.1f}")
        table.add_row(b.bucket, b.measures, *numbers, f"{b.clicks_lost_a_day:,.1f}")
    return table
