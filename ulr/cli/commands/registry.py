"""Send the trained model to the registry, send what waits for a server, or list the versions."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from rich.table import Table

from ulr.cli.terminal import Answer, say, show
from ulr.config.settings import Settings
from ulr.registry import CHALLENGER, CHAMPION, Registry
from ulr.registry.client import registry_of
from ulr.registry.outbox import queue_if_unavailable, sync, waiting
from ulr.registry.promotion import ROLLED_BACK
from ulr.registry.submission import submission_of
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr registry list"


def configure(parser: argparse.ArgumentParser) -> None:
    """What to do."""
    parser.add_argument(
        "action", choices=("send", "sync", "list"),
        help="send: the configured method's model; sync: what waits in the warehouse; list",
    )  # fmt: skip


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Do it, and say what was done."""
    warehouse, registry = Warehouse(settings.warehouse.path), registry_of(settings)
    if args.action == "list":
        listed = _listed(registry)
        show(_table(registry.name, listed))
        return Answer({"name": registry.name, "versions": listed})
    if args.action == "send":
        training = submission_of(warehouse, settings)
        with queue_if_unavailable(warehouse, training):
            sent = [registry.send(training)]
    else:
        sent = sync(registry, warehouse)
    for one in sent:
        done = "registered" if one.new else "is registered already"
        say(f"registry: {one.tags['ulr.method']} {one.tags['ulr.window']} {done}, "
            f"version {one.version} of {registry.name}")  # fmt: skip
    if not sent:
        say(f"registry: nothing waits in the outbox ({len(waiting(warehouse))})")
    return Answer({"name": registry.name, "sent": [asdict(one) for one in sent]})


def _listed(registry: Registry) -> list[dict[str, Any]]:
    held = {alias: registry.holder(alias) for alias in (CHAMPION, CHALLENGER)}
    return [
        {"version": one.version, "run_id": one.run_id, "tags": dict(one.tags),
         "aliases": [a for a, who in held.items() if who and who.version == one.version]}
        for one in registry.versions()
    ]  # fmt: skip


def _table(name: str, listed: list[dict[str, Any]]) -> Table:
    table = Table("version", "alias", "method", "window", "verdict", title=name)
    for one in listed:
        tags = [one["tags"].get(f"ulr.{n}", "") for n in ("method", "window")]
        table.add_row(str(one["version"]), ", ".join(one["aliases"]), *tags, _became(one))
    return table


def _became(one: dict[str, Any]) -> str:
    """The gate's verdict, or why a person took it back."""
    taken_back = one["tags"].get(ROLLED_BACK)
    if taken_back and CHAMPION not in one["aliases"]:
        return f"rolled back: {taken_back}"
    return one["tags"].get("ulr.verdict", "")
