"""Write a click log with known truth, its features, and the truth itself."""

from __future__ import annotations

import argparse

from ulr.progress import say, watched
from ulr.session import start_session
from ulr.settings import Settings
from ulr.simulate.log import already_written, simulate_log

EXAMPLE = "ulr simulate --set simulate.days=7 --set simulate.examination.model=continuous"


def configure(parser: argparse.ArgumentParser) -> None:
    """No options of its own."""


def run(args: argparse.Namespace, settings: Settings) -> None:
    """Simulate and say what was written."""
    wrote = already_written(settings.simulate)
    done = "unchanged, skipped: " if wrote else ""
    if wrote is None:
        with watched("simulate"):
            spark = start_session("simulate", settings.spark)
            wrote = simulate_log(spark, settings.simulate)
    say(
        f"simulate: {done}{wrote['pages']:,} pages with {wrote['clicks']:,} clicks, "
        f"{wrote['queries']:,} queries, {wrote['documents']:,} documents "
        f"-> {settings.simulate.path}"
    )
