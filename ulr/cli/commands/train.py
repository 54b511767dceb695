"""Train a ranking model on the published pairs of the configured method."""

from __future__ import annotations

import argparse

from ulr.cli.terminal import Answer
from ulr.config.settings import Settings
from ulr.pipeline.fit import Trial, fit
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr train --set pairs.method=joint --set train.num_workers=2"


def configure(parser: argparse.ArgumentParser) -> None:
    """Whether an unchanged model is trained again."""
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Train, and publish model.txt with its record."""
    trial = Trial(settings.pairs.method, Warehouse(settings.warehouse.path), settings)
    (outcome,) = fit([trial], force=args.force)
    failures = outcome.training.failures if outcome.training else []
    return Answer(outcome.to_json() | {"failures": failures})
