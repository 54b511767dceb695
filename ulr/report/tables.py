"""The published tables that belong to a run.

Every run replaces the tables. A table is used only if its manifest belongs to this run, so that a
page never shows the curve of another night.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.config.settings import Settings
from ulr.errors import UserError
from ulr.models.published import evaluation_name, read_model, read_record, weight_health
from ulr.propensity.tables import without_covariances
from ulr.report.facts import Row
from ulr.warehouse.filesystem import open_filesystem
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.stage import fingerprint
from ulr.warehouse.tables import Warehouse, partition_name

# The propensity tables, by part of the facts.
PROPENSITIES = {"curve": "propensities", "joint": "joint_propensities",
                "diagnostics": "diagnostics", "levels": "level_propensities"}  # fmt: skip
# Kept of the record of a training.
RECORD = ("validation", "t_plus", "t_minus", "position_bias", "failures", "warnings", "choice")
FEATURES = 100  # at most, of a training
TRUTH = ("segment", "k", "l", "psi")


class Model(NamedTuple):
    """A model: its name on the page, its method, and the warehouse with its tables."""

    name: str
    method: str
    warehouse: Warehouse


def propensity_parts(
    warehouse: Warehouse, window: Sequence[dt.date]
) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """Return curve, joint and diagnostics of the window, and the reasons for missing ones."""
    parts, missing = {}, {}
    curve = warehouse.current(PROPENSITIES["curve"])
    for name, table in PROPENSITIES.items():
        manifest = warehouse.current(table)
        if manifest is None:
            continue
        if name == "levels" and (curve is None or manifest.fingerprint != curve.fingerprint):
            continue  # of an earlier run: this one has a single level
        dates = _dates(manifest.inputs)
        if dates == _texts(window):
            parts[name] = without_covariances(warehouse.read(table)).to_pylist()
        else:
            missing[name] = (f"The published propensities are of another window, {dates[0]} to "
                             f"{dates[-1]}.")  # fmt: skip
    return parts, missing


def days_of(warehouse: Warehouse, window: Sequence[dt.date]) -> list[Row]:
    """Return the counts of every day; a rejected day has only those of its quarantine."""
    days = []
    for date in window:
        manifests = (warehouse.current(table, f"dt={date}") for table in ("groups", "quarantine"))
        manifest = next((m for m in manifests if m is not None), None)
        if manifest is not None:
            days.append({"date": str(date), **manifest.counts})
    return days


def weights_of(models: Sequence[Model], trained: Sequence[dt.date]) -> dict[str, list[Row]]:
    """Return the weight health of the pairs of these dates, by model."""
    health = {m.name: weight_health(m.warehouse, m.method)
              for m in models if _pairs(m, trained) is not None}  # fmt: skip
    return {name: rows for name, rows in health.items() if rows}


def trainings_of(models: Sequence[Model], trained: Sequence[dt.date]) -> dict[str, Row]:
    """Return the records of the trainings on the pairs of these dates, by model."""
    trainings = {}
    for model in models:
        manifest = _trained(model, trained)
        if manifest is not None:
            record = read_record(model.warehouse, model.method)
            kept = {name: record.get(name) for name in RECORD}
            importance = _most_important(record.get("importance"))
            trainings[model.name] = kept | {"importance": importance} | manifest.counts
    return trainings


def _most_important(importance: Row | None) -> Row | None:
    """Return the importance of the first features, which have the largest contributions."""
    return importance and importance | {"features": importance["features"][:FEATURES]}


def night_metrics(model: Model, trained: Sequence[dt.date]) -> list[Row]:
    """Return the metrics of this model; the evaluation with the champion takes precedence."""
    if _trained(model, trained) is None:
        return []
    text = fingerprint(read_model(model.warehouse, model.method))
    name = evaluation_name(model.method)
    metrics: dict[tuple[Any, ...], Row] = {}
    for partition in (f"stage=evaluate-{name}-against-champion", f"stage=evaluate-{name}"):
        manifest = model.warehouse.current("metrics", partition)
        if manifest is not None and manifest.inputs["models"].get(model.name) == text:
            for row in all_traffic(model.warehouse.read("metrics", partition).to_pylist()):
                key = tuple(row[n] for n in ("subject", "against", "position", "name"))
                metrics.setdefault(key, row)
    return list(metrics.values())


def all_traffic(rows: Sequence[Row]) -> list[Row]:
    """Return the rows over all traffic, without the columns stage and segment."""
    dropped = ("stage", "segment")
    return [{k: v for k, v in row.items() if k not in dropped} for row in rows
            if row["segment"] is None]  # fmt: skip


def _pairs(model: Model, trained: Sequence[dt.date]) -> Manifest | None:
    """Return the manifest of the model's pairs, if they are of these dates."""
    manifest = model.warehouse.current("pairs", partition_name(model.method))
    same = manifest is not None and _dates(manifest.inputs["groups"]) == _texts(trained)
    return manifest if same else None


def _trained(model: Model, trained: Sequence[dt.date]) -> Manifest | None:
    """Return the manifest of the model, if it was trained on the pairs of these dates."""
    pairs = _pairs(model, trained)
    manifest = model.warehouse.current("models", partition_name(model.method))
    if pairs is None or manifest is None or manifest.inputs["pairs"] != pairs.fingerprint:
        return None
    return manifest


def read_truth(path: str) -> list[Row]:
    """Return the simulator's examination: segment, k, l, psi (theta where k = l)."""
    try:
        fs, file = open_filesystem(path)
        return pq.read_table(
            file, filesystem=fs, partitioning=None, columns=list(TRUTH)
        ).to_pylist()
    except (OSError, pa.ArrowInvalid) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"{path}: expected the truth/examination.parquet of a simulation; {reason}"
        ) from None


def simulated_truth(settings: Settings) -> list[Row]:
    """Return the simulator's examination, if the log is the one that it wrote."""
    simulated = settings.simulate.path.rstrip("/")
    if (settings.log.path or "").rstrip("/") != f"{simulated}/log":
        return []
    path = f"{simulated}/truth/examination.parquet"
    fs, file = open_filesystem(path)
    return read_truth(path) if fs.get_file_info(file).is_file else []


def _dates(partitions: Mapping[str, Any]) -> list[str]:
    return sorted(name.removeprefix("dt=") for name in partitions if name.startswith("dt="))


def _texts(dates: Sequence[dt.date]) -> list[str]:
    return sorted(str(date) for date in dates)
