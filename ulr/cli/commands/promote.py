"""Compare the trained model with the champion, and promote it if it passes the gate."""

from __future__ import annotations

import argparse
from dataclasses import asdict

from ulr.cli.arguments import WINDOW, add_date
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.pipeline.describe import describe_decision
from ulr.pipeline.judge import challenge_champion
from ulr.registry.client import registry_of
from ulr.registry.promotion import roll_back
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr promote --date 2026-01-03"


def configure(parser: argparse.ArgumentParser) -> None:
    add_date(parser, WINDOW, required=False)
    parser.add_argument("--dry-run", action="store_true", help="evaluate, and change nothing")
    parser.add_argument("--force", metavar="REASON", help="promote whatever the gate decides")
    parser.add_argument(
        "--rollback", metavar="REASON", help="give the alias back to the previous champion"
    )


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Evaluate and promote, or roll back."""
    if args.rollback:
        warehouse = Warehouse(settings.warehouse.path)
        left, back = roll_back(registry_of(settings), warehouse, args.rollback)
        print_line(f"promote: version {left} rolled back, version {back} is champion again")
        return CommandResult({"outcome": "rolled back", "version": left, "champion": back})
    if not args.date:
        raise UserError("promote needs --date, the window to evaluate on (or --rollback REASON)")
    engine = open_engine("promote", settings)
    with TERMINAL.tasks("promote"):
        decision = challenge_champion(
            engine,
            args.date,
            settings,
            dry_run=args.dry_run,
            force=args.force,
            warn=TERMINAL.warning,
        )
    print_line(f"promote: {describe_decision(decision)}")
    return CommandResult(
        {"outcome": decision.outcome, "version": decision.version, "champion": decision.champion,
         "verdict": asdict(decision.verdict)}
    )  # fmt: skip
