"""Write judgments: the relevance of every shown document to its query, estimated from clicks.

A rating is the posterior mean of the probability that a user who examines the document finds it
relevant: clicks over examined impressions, shrunk towards a prior that is fitted to the log
(docs/judgments.md). lower and upper are its 95% interval; clicks, impressions and examined (the
expected number of examined impressions) its support. Quepid and other search-relevance workbenches
import the columns query, docid, rating.
"""

from __future__ import annotations

import argparse
import re
from functools import partial

from ulr.cli.arguments import WINDOW, add_date, check_target
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.groups.window import window_dates
from ulr.judgment.counts import make_curves
from ulr.judgment.csv_text import Layout
from ulr.judgment.stage import JudgmentsOutcome, write_judgments
from ulr.propensity.examination import CASCADE, load_examination
from ulr.redact import redact_text
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr judgments --date 2026-01-01..2026-01-03 --out judgments.csv"


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, WINDOW)
    parser.add_argument("--out", required=True, metavar="FILE", help="CSV file, a path or URL")
    parser.add_argument(
        "--min-impressions", type=int, default=1, metavar="N",
        help="leave out documents with fewer impressions (default: 1)",
    )  # fmt: skip
    parser.add_argument(
        "--scale", default="0..1", metavar="0..N",
        help="0..1: ratings are relevances (default); 0..N, as in 0..3: grades that are equally "
        "frequent under the prior",
    )  # fmt: skip
    parser.add_argument(
        "--prior", choices=("position", "log"), default="position",
        help="position: documents that were shown higher are more relevant before their clicks "
        "count, as far as the log says so (default); log: all documents are equal",
    )  # fmt: skip
    parser.add_argument(
        "--bare", action="store_true", help="only the columns query, docid and rating"
    )
    parser.add_argument(
        "--spreadsheet", action="store_true",
        help="put an apostrophe before names that a spreadsheet would compute as a formula",
    )  # fmt: skip


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Estimate, write the file, and print what it holds."""
    grades = _grades(args.scale)
    if args.min_impressions < 1:
        raise UserError(f"--min-impressions {args.min_impressions}: give a number from 1")
    if "://" not in args.out:
        check_target("--out", args.out)
    warehouse = open_warehouse(settings.warehouse)
    dates = window_dates(warehouse, args.date, settings.propensities.window_days)
    pooled, by_segment = load_examination(settings.pairs.propensities, warehouse)
    if pooled.click_model == CASCADE:
        TERMINAL.warning(
            "users stop after clicks (diagnostics of propensities), so documents below relevant "
            "ones are rated too low"
        )
    engine = open_engine("judgments", settings)
    with TERMINAL.tasks("judgments"):
        outcome = write_judgments(
            engine, warehouse, dates, args.out,
            curves=make_curves(
                pooled, by_segment, affine=settings.evaluate.correction == "affine"
            ),
            layout=partial(
                Layout, bare=args.bare, grades=grades, spreadsheet=args.spreadsheet
            ),
            min_impressions=args.min_impressions,
            prior_kind=args.prior,
        )  # fmt: skip
    out = redact_text(args.out)
    print_line(f"judgments {dates[0]}..{dates[-1]}: {_summary(outcome)} -> {out}")
    document = outcome.to_json() | {"out": out, "dates": [str(date) for date in dates]}
    return CommandResult(document | {"intervals_contain_propensities": pooled.errors is not None})


def _grades(scale: str) -> int:
    """Return the highest grade; 0 for ratings from 0 to 1."""
    found = re.fullmatch(r"0\.\.([1-9]\d?)", scale)
    if found is None:
        raise UserError(f"--scale {scale}: give 0..1 for relevances, or grades, as in 0..3")
    highest = int(found[1])
    return 0 if highest == 1 else highest


def _summary(outcome: JudgmentsOutcome) -> str:
    facts = outcome.to_json()
    prior = facts["prior"]
    return (
        f"{outcome.documents:,} documents, mean relevance {prior['mean']:.3f} "
        f"({prior['lower']:.3f} to {prior['upper']:.3f} of 95%); "
        f"{facts['supported']:.0%} with an interval half as wide"
    )
