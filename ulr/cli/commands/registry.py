"""Register the trained model in MLflow, send queued models, or list the versions."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.table import Table

from ulr.cli.terminal import CommandResult, print_line, print_table, print_warning
from ulr.config.settings import Settings
from ulr.errors import InvalidData
from ulr.registry import CHALLENGER, CHAMPION, Registry
from ulr.registry.client import registry_of
from ulr.registry.outbox import Synced, queued, send, sync
from ulr.registry.submission import submission_of
from ulr.registry.tags import METHOD, ROLLED_BACK, VERDICT, WINDOW
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr registry list"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "action", choices=("send", "sync", "list"),
        help="send: register the configured method's model; sync: register the queued models; "
             "list: print the versions",
    )  # fmt: skip


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Run the action."""
    warehouse, registry = open_warehouse(settings.warehouse), registry_of(settings)
    if args.action == "list":
        versions = _versions(registry)
        print_table(_table(registry.name, versions))
        return CommandResult({"name": registry.name, "versions": versions})
    if args.action == "send":
        submission = submission_of(warehouse, settings)
        synced = Synced([send(registry, warehouse, submission)], [])
    else:
        synced = sync(registry, warehouse)
    sent, damaged = synced
    for version in sent:
        done = "registered" if version.new else "is registered already"
        print_line(f"registry: {version.tags[METHOD]} {version.tags[WINDOW]} {done}, "
                   f"version {version.version} of {registry.name}")  # fmt: skip
    if not sent:
        print_line(f"registry: {len(queued(warehouse))} models are queued")
    document = {"name": registry.name, "sent": [asdict(one) for one in sent], "damaged": damaged}
    return CommandResult(document, _error(damaged))


def _error(damaged: list[str]) -> Exception | None:
    """Print the damaged entries but the first, and return that one as the command's error."""
    for message in damaged[1:]:
        print_warning(message)
    return InvalidData(damaged[0]) if damaged else None


def _versions(registry: Registry) -> list[dict[str, Any]]:
    holders = {alias: registry.version_with_alias(alias) for alias in (CHAMPION, CHALLENGER)}
    return [
        {"version": one.version, "run_id": one.run_id, "tags": dict(one.tags),
         "aliases": [a for a, held in holders.items() if held and held.version == one.version]}
        for one in registry.versions()
    ]  # fmt: skip


def _table(name: str, versions: list[dict[str, Any]]) -> Table:
    table = Table("version", "alias", "method", "window", "verdict", title=name)
    for one in versions:
        tags = [one["tags"].get(name, "") for name in (METHOD, WINDOW)]
        table.add_row(str(one["version"]), ", ".join(one["aliases"]), *tags, _verdict(one))
    return table


def _verdict(version: dict[str, Any]) -> str:
    """Return the gate's verdict, or the reason of a rollback."""
    reason = version["tags"].get(ROLLED_BACK)
    if reason and CHAMPION not in version["aliases"]:
        return f"rolled back: {reason}"
    return version["tags"].get(VERDICT, "")
