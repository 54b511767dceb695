"""Score a features table with a registered model and rank the documents of each query.

The table is that of `pairs`: features.path or features.table, features.columns, features.keys. The
model finds its features by name, in any order and among others, if they have names (columns do);
else their number must be the model's. Of a table with dates the latest date is scored.
"""

from __future__ import annotations

import argparse

from ulr.cli.arguments import add_force
from ulr.cli.engines import open_engine
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.models.stage import build_scores
from ulr.pipeline.judge import load_model_text
from ulr.registry import CHAMPION
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr score --model models:/ulr-ranker@champion --features data/simulated/features"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", metavar="URI",
        help="models:/NAME@ALIAS, models:/NAME/VERSION, a trained method or a LightGBM text file "
             "(default: the champion)",
    )  # fmt: skip
    parser.add_argument("--features", metavar="PATH", help="default: those of the section features")
    add_force(parser)


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Score and publish the table `scores`."""
    warehouse = open_warehouse(settings.warehouse)
    name = args.model or f"models:/{settings.mlflow.registered_model}@{CHAMPION}"
    text = load_model_text(warehouse, name, settings, TERMINAL.warning)
    features = settings.features
    if args.features:
        features = features.model_copy(
            update={"source": "table", "path": args.features, "table": None}
        )
    engine = open_engine("score", settings)
    with TERMINAL.tasks("score"):
        outcome = build_scores(
            engine,
            warehouse,
            features=features,
            model=text,
            name=name,
            partitions=settings.score.partitions,
            force=args.force,
        )
    counts = outcome.manifest.counts
    result = f"{counts['rows']:,} documents of {counts['queries']:,} queries by {name}"
    path = warehouse.storage.shown("scores", outcome.manifest.folder)
    done = f"unchanged, skipped ({result})" if outcome.skipped else result
    print_line(f"score: {done} -> {path}")
    return CommandResult(outcome.to_json() | {"model": name})
