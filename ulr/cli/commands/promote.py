"""Let the trained model challenge the champion; the verdict and its reasons are written down."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from functools import partial

from ulr.cli.commands import evaluate
from ulr.cli.progress import watched
from ulr.cli.terminal import Answer, say
from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.evaluation.totals import Totals
from ulr.models.published import evaluation_name, read_model
from ulr.propensity.examination import WAREHOUSE
from ulr.registry import CHAMPION
from ulr.registry.client import registry_of
from ulr.registry.promotion import Decision, promote, roll_back
from ulr.registry.submission import submission_of
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr promote --date 2026-01-03"


def configure(parser: argparse.ArgumentParser) -> None:
    """The clicks to judge by, and ways around the gate."""
    parser.add_argument("--date", help="last day of the window to judge by, or D1..D2")
    parser.add_argument("--dry-run", action="store_true", help="judge, and change nothing")
    parser.add_argument("--force", metavar="REASON", help="promote whatever the gate says")
    parser.add_argument(
        "--rollback", metavar="REASON", help="give the alias back to the previous champion"
    )


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Judge and promote, or roll back."""
    if args.rollback:
        left, back = roll_back(registry_of(settings), args.rollback)
        say(f"promote: version {left} rolled back, version {back} is champion again")
        return Answer({"outcome": "rolled back", "version": left, "champion": back})
    if not args.date:
        raise UserError("promote needs --date, the window to judge by (or --rollback REASON)")
    with watched("promote"):
        decision = decide(args.date, settings, dry_run=args.dry_run, force=args.force)
    say(describe(decision))
    return Answer(
        {"outcome": decision.outcome, "version": decision.version, "champion": decision.champion,
         "verdict": asdict(decision.verdict)}
    )  # fmt: skip


def decide(
    date: str, settings: Settings, *, dry_run: bool = False, force: str | None = None
) -> Decision:
    """The configured method's model against the champion, as the settings say."""
    warehouse, method = Warehouse(settings.warehouse.path), settings.pairs.method
    return promote(
        registry_of(settings),
        warehouse,
        submission_of(warehouse, settings),
        partial(_judge, warehouse, date, settings),
        settings.promote,
        method=method,
        measured=settings.pairs.propensities == WAREHOUSE,
        dry_run=dry_run,
        force=force,
    )


def describe(decision: Decision) -> str:
    """The outcome in one line, then the reasons."""
    verdict = decision.verdict
    head = {
        "promoted": f"version {decision.version} is the new champion",
        "kept": f"version {decision.version} is refused, the champion stays",
        "champion": f"version {decision.version} is the champion already",
        "dry run": f"would be {'promoted' if verdict.passed else 'refused'}; nothing was changed",
    }[decision.outcome]
    bad = set(verdict.against)
    lines = [f"  {'against' if r in bad else 'for'}: {r}" for r in verdict.reasons]
    return "\n".join([f"promote: {head}", *lines])


def _judge(warehouse: Warehouse, date: str, settings: Settings, champion: str) -> Totals:
    method = settings.pairs.method
    models = {method: read_model(warehouse, method), CHAMPION: champion}
    where = f"{evaluation_name(method)}-against-champion"
    return evaluate.judge(warehouse, date, models, settings, partition=where).totals
