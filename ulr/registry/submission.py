"""Everything the registry is told of one training, gathered from the warehouse.

Plain values that become one JSON file, so that a model whose upload failed waits complete in the
warehouse and is sent later from there alone.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow.parquet as pq

from ulr.config.load import flat
from ulr.config.settings import Settings
from ulr.evaluation.stage import last_totals
from ulr.evaluation.totals import Totals, metric_values
from ulr.models.published import model_manifest, pairs_of_model, read_model, read_record
from ulr.redact import redact
from ulr.version import __version__
from ulr.warehouse.stage import fingerprint
from ulr.warehouse.tables import Warehouse, partition_name

EXAMPLE_ROWS = 5


@dataclass(frozen=True)
class Submission:
    """One training. history: a metric's value after every iteration; files: name to content."""

    fingerprint: str
    name: str
    model: str
    example: list[list[float]]
    params: dict[str, str]
    tags: dict[str, str]
    metrics: dict[str, float]
    history: dict[str, list[float]]
    files: dict[str, str]

    def to_json(self) -> dict[str, Any]:
        """For the outbox."""
        return asdict(self)


def read_submission(content: Mapping[str, Any]) -> Submission:
    """What `to_json` gave."""
    return Submission(**content)


def gather_submission(
    warehouse: Warehouse,
    method: str,
    *,
    settings: Mapping[str, Any],
    totals: Totals | None,
    name: str,
) -> Submission:
    """The published model of a method with its lineage, its learned tables and its figures.

    name: the model's in the totals. Pairs that were made since say nothing of the model: window,
    weight health and example are then not known.
    """
    manifest = model_manifest(warehouse, method)
    record = read_record(warehouse, method)
    pairs = pairs_of_model(warehouse, method)
    groups = dict(pairs.inputs["groups"]) if pairs else {}
    days = sorted(day.removeprefix("dt=") for day in groups)
    window = f"{days[0]}..{days[-1]}" if days else "unknown"
    health = _health(warehouse, method) if pairs else []
    shown = redact(flat(settings))
    files = {
        "settings.json": _json(shown),
        "inputs.json": _json({"model": manifest.inputs, "pairs": pairs.inputs if pairs else None}),
        "record.json": _json(record),
        "biases.json": _json({name: record.get(name) for name in ("t_plus", "t_minus")}),
        "weight_health.json": _json(health),
        **_propensity_files(warehouse),
    }
    return Submission(
        fingerprint=manifest.fingerprint,
        name=f"{name} {window}",
        model=read_model(warehouse, method),
        example=_example(warehouse, method) if pairs else [],
        params=shown | {"trees": str(manifest.counts["trees"])},
        tags={
            "ulr.fingerprint": manifest.fingerprint,
            "ulr.version": __version__,
            "ulr.method": method,
            "ulr.window": window,
            "ulr.pairs.tasks": str(manifest.inputs["pairs"]),
            "ulr.groups.tasks": fingerprint(groups),
        },
        metrics=_metrics(totals, name) | _whole(health) | _counts(manifest.counts),
        history=record.get("validation", {}),
        files=files,
    )


def _metrics(totals: Totals | None, name: str) -> dict[str, float]:
    """Final metrics, each with the ends of its interval."""
    found = {}
    for metric, estimate in metric_values(totals or Totals(), name).items():
        found[metric] = estimate.value
        found[f"{metric}_lower"], found[f"{metric}_upper"] = estimate.lower, estimate.upper
    return found


def _health(warehouse: Warehouse, method: str) -> list[dict[str, Any]]:
    partition = f"stage=pairs-{partition_name(method)}"
    if warehouse.current("metrics", partition) is None:
        return []
    return warehouse.read("metrics", partition).select(["position", "name", "value"]).to_pylist()


def _whole(health: list[dict[str, Any]]) -> dict[str, float]:
    return {f"weights_{r['name']}": r["value"] for r in health if r["position"] is None}


def _counts(counts: Mapping[str, int]) -> dict[str, float]:
    return {f"trained_{name}": float(value) for name, value in counts.items()}


def _propensity_files(warehouse: Warehouse) -> dict[str, str]:
    """The published tables as JSON, and what the diagnostics said."""
    files = {}
    for table in ("propensities", "joint_propensities", "diagnostics"):
        if warehouse.current(table) is not None:
            files[f"{table}.json"] = _json(warehouse.read(table).to_pylist())
    return files


def _example(warehouse: Warehouse, method: str) -> list[list[float]]:
    """A few feature rows of the first query."""
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


def submission_of(warehouse: Warehouse, settings: Settings) -> Submission:
    """The configured method's model with all that is known of it."""
    method = settings.pairs.method
    totals = last_totals(warehouse, method, read_model(warehouse, method))
    return submission(warehouse, method, settings, totals)


def submission(
    warehouse: Warehouse,
    method: str,
    settings: Settings,
    totals: Totals | None,
    *,
    name: str | None = None,
) -> Submission:
    """A method's model with the settings that made it; name: its own in the totals."""
    used = settings.model_dump(mode="json", exclude={"simulate", "plan_swaps", "compare", "mlflow"})
    used["pairs"]["method"] = method
    return gather_submission(warehouse, method, settings=used, totals=totals, name=name or method)
