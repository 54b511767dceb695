"""Train a ranking model on the published pairs of the configured method.

The model has the names of the features, if they have names (`ulr pairs --help`). A missing value is
one for LightGBM, too; the linear ranker takes the mean in its place.
"""

from __future__ import annotations

import argparse

from ulr.cli.arguments import add_force
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult
from ulr.config.settings import Settings
from ulr.pipeline.fit import Trial, fit
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr train --set train.num_workers=2"

configure = add_force


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Train, and publish model.txt with its record."""
    engine = open_engine("train", settings)
    trial = Trial(settings.pairs.method, open_warehouse(settings.warehouse), settings)
    (outcome,) = fit(engine, [trial], TERMINAL, force=args.force)
    failures = outcome.training.failures if outcome.training else []
    ranker = outcome.training.ranker if outcome.training else None
    details = {"choice": ranker.choice, "warnings": ranker.warnings} if ranker else {}
    return CommandResult(outcome.to_json() | {"failures": failures, **details})
