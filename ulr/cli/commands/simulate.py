"""Write a click log with known truth, its features, and the truth itself."""

from __future__ import annotations

import argparse

from ulr.cli.progress import watched
from ulr.cli.terminal import Answer, say
from ulr.config.settings import Settings
from ulr.engine.session import start_session
from ulr.simulate.stage import already_written, simulate_log

EXAMPLE = "ulr simulate --set simulate.examination.model=continuous"


def configure(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Simulate and say what was written."""
    wrote = already_written(settings.simulate)
    skipped = wrote is not None
    if wrote is None:
        with watched("simulate"):
            spark = start_session("simulate", settings.spark)
            wrote = simulate_log(spark, settings.simulate)
    say(
        f"simulate: {'unchanged, skipped: ' if skipped else ''}{wrote['pages']:,} pages "
        f"with {wrote['clicks']:,} clicks, {wrote['queries']:,} queries, "
        f"{wrote['documents']:,} documents -> {settings.simulate.path}"
    )
    return Answer({"path": settings.simulate.path, "skipped": skipped, **wrote})
