"""Write a click log with known truth, its features, and the truth."""

from __future__ import annotations

import argparse

from ulr.cli.arguments import no_options
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.simulate.stage import already_written, simulate_log

EXAMPLE = "ulr simulate --set simulate.examination.model=continuous"

configure = no_options


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Simulate unless the same log is there already."""
    counts = already_written(settings.simulate)
    skipped = counts is not None
    if counts is None:
        engine = open_engine("simulate", settings)
        with TERMINAL.tasks("simulate"):
            counts = simulate_log(engine, settings.simulate)
    print_line(
        f"simulate: {'unchanged, skipped: ' if skipped else ''}{counts['pages']:,} pages "
        f"with {counts['clicks']:,} clicks, {counts['queries']:,} queries, "
        f"{counts['documents']:,} documents -> {settings.simulate.path}"
    )
    return CommandResult({"path": settings.simulate.path, "skipped": skipped, **counts})
