"""One night, or several: groups, propensities, pairs, training, evaluation, promotion, in one Spark
session."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from rich.table import Table

from ulr.cli.progress import steps
from ulr.cli.terminal import Answer, say, show
from ulr.config.settings import Settings
from ulr.dates import parse_dates
from ulr.pipeline.night import FAILURE, Summary, run_night
from ulr.pipeline.night_stages import STAGES, Night
from ulr.pipeline.reports import report_night
from ulr.warehouse.lock import hold
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr nightly --date 2026-01-03 --from-stage pairs"
FOLDER = "nights"
GOLDEN = {"ndcg_at_1": "NDCG@1", "ndcg_at_10": "@10"}


def configure(parser: argparse.ArgumentParser) -> None:
    """The date or dates, and where to begin."""
    parser.add_argument(
        "--date", required=True,
        help="the day whose log has just been closed, or D1..D2: one night after the other",
    )  # fmt: skip
    parser.add_argument("--from-stage", metavar="STAGE", help="leave out the stages before this")
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Run the nights under the warehouse's lock; the first that fails is the last."""
    dates = parse_dates(args.date)
    storage = Warehouse(settings.warehouse.path).storage
    summaries = []
    todo = STAGES[STAGES.index(args.from_stage) :] if args.from_stage in STAGES else STAGES
    with (
        hold(storage, FOLDER, "this warehouse's night"),
        steps("nightly", [*todo] * len(dates), "stages") as stepping,
    ):
        for date in dates:
            night = Night(settings, date, args.force)
            summary = run_night(str(date), night.steps(stepping), from_stage=args.from_stage)
            storage.write_json(summary.to_json(), FOLDER, f"{date}.json")
            summaries.append(summary)
            kept = storage.shown(FOLDER, f"{date}.json")
            say(f"nightly {date}: {summary.outcome} in {summary.seconds:.1f} s -> {kept}")
            if not _report(night, summary):
                storage.write_json(summary.to_json(), FOLDER, f"{date}.json")
            if summary.error is not None:
                break
    last = summaries[-1]
    if len(dates) == 1 or last.error:
        show(summary_table(last))
    if len(dates) > 1:
        show(nights_table(summaries, settings.promote.metric))
    found = [summary.to_json() for summary in summaries]
    return Answer(found[0] if len(dates) == 1 else {"nights": found}, last.error)


def _report(night: Night, summary: Summary) -> bool:
    """The page of the night; where it cannot be made, what ended the night is still what counts,
    and a night that went well has failed after all."""
    try:
        report_night(night, summary)
    except Exception as error:
        if summary.error is None:
            summary.error = error
            summary.exit_code = getattr(error, "exit_code", FAILURE)
        return False
    return True


def summary_table(summary: Summary) -> Table:
    """A line per stage."""
    table = Table("stage", "status", title=f"night of {summary.date}")
    table.add_column("seconds", justify="right")
    table.add_column("")
    for record in summary.stages:
        table.add_row(record.stage, record.status, f"{record.seconds:.1f}", record.message)
    return table


def nights_table(summaries: Sequence[Summary], metric: str) -> Table:
    """A line per night: every model on golden labels, or on `metric` where there are none.

    The last two columns are about the champion after the night.
    """
    judged = [s.details("evaluate").get("metrics", {}) for s in summaries]
    names = list(next((m for m in reversed(judged) if m), {}))
    golden = any(set(GOLDEN) <= set(found) for metrics in judged for found in metrics.values())
    shown = GOLDEN if golden else {metric: metric}
    last = list(shown.values())[-1]
    headings = [f"{name} {heading}" for name in names for heading in shown.values()]
    table = Table(title="nights, judged by queries that no model was trained on")
    for heading in ("night", "pages", *headings, "verdict", "champion", last):
        side = "left" if heading in ("night", "verdict") else "right"
        table.add_column(heading, justify=side)
    for summary, metrics in zip(summaries, judged, strict=True):
        pages = summary.details("evaluate").get("pages", 0)
        cells = [_number(metrics.get(name, {}).get(metric)) for name in names for metric in shown]
        table.add_row(summary.date, f"{pages:,}", *cells, summary.outcome,
                      *_champion(summary, list(shown)[-1]))  # fmt: skip
    return table


def _champion(summary: Summary, metric: str) -> tuple[str, str]:
    """Who is champion after the night, and what it is worth by tonight's queries."""
    decision, judged = summary.details("promote"), summary.details("evaluate")
    if summary.outcome == "kept":
        who, found = decision["champion"], decision["champion_metrics"]
    else:
        who, found = decision.get("version"), next(iter(judged.get("metrics", {}).values()), {})
    return "-" if who is None else str(who), _number(found.get(metric))


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"
