"""Write a model as the file that a search engine or ONNX Runtime serves.

The file gives the scores of LightGBM for float32 features, also at thresholds and for missing
values (docs/export.md has how to upload it, and what each engine does differently).
opensearch, elasticsearch: the body of _createmodel of the Learning to Rank plugin; solr: for the
model store; vespa: for lightgbm(FILE); onnx: input `features`, output `score`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from ulr.cli.arguments import check_target
from ulr.cli.progress import TERMINAL
from ulr.cli.terminal import CommandResult, print_line
from ulr.config.settings import Settings
from ulr.models.export.formats import FILES, export_model
from ulr.pipeline.judge import load_model_text
from ulr.registry import CHAMPION
from ulr.warehouse.tables import open_warehouse

EXAMPLE = "ulr export --model models:/ulr-ranker@champion --format opensearch --out ranker.json"


def configure(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--model", metavar="URI",
        help="models:/NAME@ALIAS, models:/NAME/VERSION, a trained method or a LightGBM text file "
             "(default: the champion)",
    )  # fmt: skip
    parser.add_argument("--format", required=True, choices=FILES, help="the engine's format")
    parser.add_argument("--out", required=True, metavar="FILE", help="file to write")
    parser.add_argument(
        "--name", help="name of the model in the engine (default: mlflow.registered_model)"
    )


def run(args: argparse.Namespace, settings: Settings) -> CommandResult:
    """Export the model and write the file."""
    check_target("--out", args.out)
    warehouse = open_warehouse(settings.warehouse)
    model = args.model or f"models:/{settings.mlflow.registered_model}@{CHAMPION}"
    text = load_model_text(warehouse, model, settings, TERMINAL.warning)
    content = export_model(text, args.format, args.name or settings.mlflow.registered_model)
    Path(args.out).write_bytes(content)
    print_line(f"export: {model} as {args.format}, {len(content):,} bytes -> {args.out}")
    return CommandResult(
        {"model": model, "format": args.format, "out": args.out, "bytes": len(content)}
    )
