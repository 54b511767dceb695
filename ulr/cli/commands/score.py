"""Score a features table with a model of the registry; every query in its new order."""

from __future__ import annotations

import argparse
from functools import partial

from ulr.cli.progress import watched
from ulr.cli.terminal import Answer, say
from ulr.config.settings import Settings
from ulr.engine.session import start_session
from ulr.models.published import read_model
from ulr.models.stage import build_scores
from ulr.registry import CHAMPION
from ulr.registry.client import registry_of
from ulr.warehouse.tables import Warehouse

EXAMPLE = "ulr score --model models:/ulr-ranker@champion --features data/simulated/features"


def configure(parser: argparse.ArgumentParser) -> None:
    """Which model, over what."""
    parser.add_argument(
        "--model", metavar="URI",
        help="models:/NAME@ALIAS, models:/NAME/VERSION, a trained method or a LightGBM text file "
             "(default: the champion)",
    )  # fmt: skip
    parser.add_argument("--features", metavar="PATH", help="default: features.path")
    parser.add_argument("--force", action="store_true", help="also where nothing has changed")


def run(args: argparse.Namespace, settings: Settings) -> Answer:
    """Score and publish the table `scores`."""
    warehouse = Warehouse(settings.warehouse.path)
    name = args.model or f"models:/{settings.mlflow.registered_model}@{CHAMPION}"
    text = model_text(warehouse, name, settings)
    with watched("score"):
        outcome = build_scores(
            partial(start_session, "score", settings.spark),
            warehouse,
            features=args.features or settings.features.path,
            model=text,
            name=name,
            partitions=settings.score.partitions,
            force=args.force,
        )
    counts = outcome.manifest.counts
    told = f"{counts['rows']:,} documents of {counts['queries']:,} queries by {name}"
    where = warehouse.storage.shown("scores", outcome.manifest.folder)
    say(f"score: {'unchanged, skipped (' + told + ')' if outcome.skipped else told} -> {where}")
    return Answer(outcome.to_json() | {"model": name})


def model_text(warehouse: Warehouse, name: str, settings: Settings) -> str:
    """A model by registry URI, by method, or from a file."""
    if name.startswith(("models:/", "runs:/")):
        return registry_of(settings).model_text(name)
    return read_model(warehouse, name)
