"""A training as the registry receives it, collected from the warehouse.

It consists of plain values that fit one JSON file, so that a model whose upload failed can be
registered later from that file alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow.parquet as pq

from ulr.config.load import flat
from ulr.config.settings import Settings
from ulr.evaluation.stage import published_totals
from ulr.evaluation.totals import Totals, metric_values
from ulr.models.export.formats import export_model
from ulr.models.published import (
    model_manifest,
    pairs_of_model,
    read_model,
    read_record,
    weight_health,
)
from ulr.redact import redact
from ulr.registry import tags
from ulr.training.biases import LEARNED_BIASES
from ulr.version import __version__
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.stage import fingerprint
from ulr.warehouse.tables import Warehouse, partition_name

EXAMPLE_ROWS = 5
_SIZES = ("queries", "rows", "pairs")
_DIGEST_LENGTH = 36  # MLflow's limit
# Metrics with the effective sample sizes of the training data.
CLICKS, QUERIES = "weights_effective_clicks", "weights_effective_queries"
_NOT_OF_A_TRAINING = {"simulate", "plan_swaps", "compare", "mlflow"}


@dataclass(frozen=True)
class Submission:
    """One training.

    history: a metric's value after every iteration. files: name to content. dataset: of MLflow, the
    pairs. exports: formats to attach. engine_name: of the model in an engine.
    """

    fingerprint: str
    name: str
    model: str
    example: list[list[float]]
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]
    history: dict[str, list[float]]
    files: dict[str, str]
    dataset: dict[str, str] = field(default_factory=dict)
    exports: Sequence[str] = field(default_factory=list)
    engine_name: str = ""


def submission_of(warehouse: Warehouse, settings: Settings) -> Submission:
    """Collect the configured method's model with its published metrics."""
    method = settings.pairs.method
    totals = published_totals(warehouse, method, read_model(warehouse, method))
    submission = collect_submission(warehouse, settings, totals)
    return _with_exports(submission, settings) if settings.promote.export else submission


def _with_exports(submission: Submission, settings: Settings) -> Submission:
    """Return the submission with the formats to attach; raise UserError if one cannot be written.

    The name in an engine has the last date of the window: engines do not replace a model.
    """
    day = submission.tags[tags.WINDOW].rpartition("..")[2]
    name = f"{settings.mlflow.registered_model}-{day}"
    forms = list(settings.promote.export)
    for form in forms:
        export_model(submission.model, form, name)
    own = {tags.EXPORTS: ",".join(forms)}
    return replace(submission, exports=forms, engine_name=name, tags=submission.tags | own)


def collect_submission(
    warehouse: Warehouse, settings: Settings, totals: Totals | None, *, name: str | None = None
) -> Submission:
    """Collect the configured method's model with its lineage, learned tables and metrics.

    name: of the model in the totals, by default the method. If the pairs were replaced since the
    training, then window, weight health and example are unknown.
    """
    method = settings.pairs.method
    name = name or method
    manifest = model_manifest(warehouse, method)
    record = read_record(warehouse, method)
    pairs = pairs_of_model(warehouse, method)
    health = weight_health(warehouse, method) if pairs else []
    params = redact(flat(settings.model_dump(mode="json", exclude=_NOT_OF_A_TRAINING)))
    training_tags = _tags(manifest, pairs, method)
    return Submission(
        fingerprint=manifest.fingerprint,
        name=f"{name} {training_tags[tags.WINDOW]}",
        model=read_model(warehouse, method),
        example=_example(warehouse, method) if pairs else [],
        params=params | {"trees": str(manifest.counts["trees"])} | _choice(record),
        tags=training_tags,
        metrics={
            **_metrics(totals or Totals(), name),
            **{f"weights_{r['name']}": r["value"] for r in health if r["position"] is None},
            **{f"trained_{unit}": float(count) for unit, count in manifest.counts.items()},
            **_trial_metrics(record),
        },
        history=record.get("validation", {}),
        files={
            "settings.json": _json(params),
            "inputs.json": _json(
                {"model": manifest.inputs, "pairs": pairs.inputs if pairs else None}
            ),
            "record.json": _json(record),
            "biases.json": _json({key: record.get(key) for key in LEARNED_BIASES}),
            "weight_health.json": _json(health),
            **_propensity_files(warehouse),
        },
        dataset=_dataset(warehouse, manifest, training_tags, method),
    )


def _dataset(
    warehouse: Warehouse, manifest: Manifest, training_tags: Mapping[str, str], method: str
) -> dict[str, str]:
    """Return MLflow's description of the pairs: where they are, fingerprint and counts."""
    url = warehouse.storage.shown("pairs", partition_name(method))
    counts = {unit: manifest.counts[unit] for unit in _SIZES if unit in manifest.counts}
    return {
        "name": f"pairs {method} {training_tags[tags.WINDOW]}",
        "digest": str(manifest.inputs["pairs"])[:_DIGEST_LENGTH],
        "source_type": "ulr",
        "source": json.dumps({"uri": redact(url)}),
        "profile": json.dumps(counts),
    }


def _tags(manifest: Manifest, pairs: Manifest | None, method: str) -> dict[str, str]:
    groups: Mapping[str, str] = pairs.inputs["groups"] if pairs else {}
    days = sorted(day.removeprefix("dt=") for day in groups)
    return {
        tags.FINGERPRINT: manifest.fingerprint,
        tags.PACKAGE_VERSION: __version__,
        tags.METHOD: method,
        tags.WINDOW: f"{days[0]}..{days[-1]}" if days else "unknown",
        tags.PAIRS: str(manifest.inputs["pairs"]),
        tags.GROUPS: fingerprint(groups),
    }


def _choice(record: Mapping[str, Any]) -> dict[str, str]:
    """Return what method auto chose, and why."""
    choice = record.get("choice") or {}
    chosen = ("method", "num_leaves", "reason")
    return {f"choice.{name}": str(choice[name]) for name in chosen if choice}


def _trial_metrics(record: Mapping[str, Any]) -> dict[str, float]:
    """Return the losses that the choice compares, and their differences from the default."""
    trials = (record.get("choice") or {}).get("trials", [])
    return {
        f"trial_{_metric_name(trial)}_{name}": trial[name]
        for trial in trials
        for name in ("loss", "difference", "standard_error")
    }


def _metric_name(trial: Mapping[str, Any]) -> str:
    """Return method and leaves of a trial in characters that MLflow accepts."""
    text = f"{trial['method']} {trial['num_leaves']} leaves"
    return text.replace("+", " plus").replace(" ", "_")


def _metrics(totals: Totals, name: str) -> dict[str, float]:
    """Return every metric over all traffic, each with the bounds of its interval."""
    metrics = {}
    for metric, estimate in metric_values(totals, name).items():
        metrics[metric] = estimate.value
        metrics[f"{metric}_lower"], metrics[f"{metric}_upper"] = estimate.lower, estimate.upper
    return metrics


def _propensity_files(warehouse: Warehouse) -> dict[str, str]:
    tables = ("propensities", "joint_propensities", "diagnostics")
    return {
        f"{table}.json": _json(warehouse.read(table).to_pylist())
        for table in tables
        if warehouse.current(table) is not None
    }


def _example(warehouse: Warehouse, method: str) -> list[list[float]]:
    """Return the first feature rows of the first query."""
    fs = warehouse.storage.fs
    for path in warehouse.files("pairs", partition_name(method)):
        with fs.open_input_file(path) as stream:
            rows = pq.ParquetFile(stream).iter_batches(1, columns=["doc_ids", "features"])
            first = next(rows, None)
        if first is not None and first.num_rows:
            row = first.to_pylist()[0]
            width = len(row["features"]) // len(row["doc_ids"])
            starts = range(0, len(row["features"]), width)
            return [row["features"][s : s + width] for s in starts][:EXAMPLE_ROWS]
    return []


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, sort_keys=True, default=str) + "\n"
