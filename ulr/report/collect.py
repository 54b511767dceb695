"""The tables that a run has left, as the parts of its report's facts.

Tables are replaced every night. One is taken only where its manifest says that it belongs to this
run: a page never shows last night's curve as tonight's.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pyarrow.parquet as pq

from ulr.config.settings import Settings
from ulr.evaluation.totals import Totals, metrics_table
from ulr.models.published import evaluation_name, read_model, read_record
from ulr.report.facts import Row
from ulr.warehouse.stage import fingerprint
from ulr.warehouse.storage import open_filesystem
from ulr.warehouse.tables import Manifest, Warehouse, partition_name

PROPENSITIES = {"curve": "propensities", "joint": "joint_propensities",
                "diagnostics": "diagnostics"}  # fmt: skip


class Model(NamedTuple):
    """A model by the name it is shown by, its method, and where its tables are."""

    name: str
    method: str
    warehouse: Warehouse


def propensity_parts(
    warehouse: Warehouse, window: Sequence[dt.date]
) -> tuple[dict[str, list[Row]], dict[str, str]]:
    """curve, joint and diagnostics of the window; and why one is missing, by its name."""
    found, missing = {}, {}
    for name, table in PROPENSITIES.items():
        manifest = warehouse.current(table)
        if manifest is None:
            continue
        days = _dates(manifest.inputs)
        if days == _texts(window):
            found[name] = warehouse.read(table).to_pylist()
        else:
            missing[name] = (f"The published propensities are of another window, {days[0]} to "
                             f"{days[-1]}.")  # fmt: skip
    return found, missing


def weights_of(models: Sequence[Model], trained: Sequence[dt.date]) -> dict[str, list[Row]]:
    """Weight health of the pairs of these dates, by model."""
    found = {m.name: _health(m) for m in models if _pairs(m, trained) is not None}
    return {name: rows for name, rows in found.items() if rows}


def trainings_of(models: Sequence[Model], trained: Sequence[dt.date]) -> dict[str, Row]:
    """How the trainings on those pairs went, by model."""
    kept = ("validation", "t_plus", "t_minus", "failures")
    found = {}
    for one in models:
        manifest = _trained(one, trained)
        if manifest is not None:
            record = read_record(one.warehouse, one.method)
            found[one.name] = {name: record.get(name) for name in kept} | manifest.counts
    return found


def night_metrics(model: Model, trained: Sequence[dt.date]) -> list[Row]:
    """Rows about this very model: beside the champion, then beside its baselines."""
    if _trained(model, trained) is None:
        return []
    text = fingerprint(read_model(model.warehouse, model.method))
    name = evaluation_name(model.method)
    found: dict[tuple, Row] = {}
    for where in (f"stage=evaluate-{name}-against-champion", f"stage=evaluate-{name}"):
        manifest = model.warehouse.current("metrics", where)
        if manifest is not None and manifest.inputs["models"].get(model.name) == text:
            for row in _whole_traffic(model.warehouse.read("metrics", where).to_pylist()):
                key = tuple(row[n] for n in ("subject", "against", "position", "name"))
                found.setdefault(key, row)
    return list(found.values())


def comparison_metrics(totals: Totals) -> list[Row]:
    """The same rows of an evaluation that is at hand."""
    return _whole_traffic(metrics_table(totals).to_pylist())


def days_of(warehouse: Warehouse, window: Sequence[dt.date]) -> list[Row]:
    """What was counted on every day; a day that was refused has only its quarantine."""
    days = []
    for date in window:
        tables = (warehouse.current(table, f"dt={date}") for table in ("groups", "quarantine"))
        manifest = next((m for m in tables if m is not None), None)
        if manifest is not None:
            days.append({"date": str(date), **manifest.counts})
    return days


def simulated_truth(settings: Settings) -> list[Row]:
    """The simulator's examination, where the log that is read is the one that it wrote."""
    simulated = settings.simulate.path.rstrip("/")
    if settings.log.path.rstrip("/") != f"{simulated}/log":
        return []
    fs, path = open_filesystem(f"{simulated}/truth/examination.parquet")
    if not fs.get_file_info(path).is_file:
        return []
    return pq.read_table(path, filesystem=fs, columns=["segment", "k", "l", "psi"]).to_pylist()


def _whole_traffic(rows: Sequence[Row]) -> list[Row]:
    left = ("stage", "segment")
    return [{k: v for k, v in row.items() if k not in left} for row in rows
            if row["segment"] is None]  # fmt: skip


def _pairs(model: Model, trained: Sequence[dt.date]) -> Manifest | None:
    found = model.warehouse.current("pairs", partition_name(model.method))
    same = found is not None and _dates(found.inputs["groups"]) == _texts(trained)
    return found if same else None


def _trained(model: Model, trained: Sequence[dt.date]) -> Manifest | None:
    pairs = _pairs(model, trained)
    found = model.warehouse.current("models", partition_name(model.method))
    same = pairs is not None and found is not None and found.inputs["pairs"] == pairs.fingerprint
    return found if same else None


def _health(model: Model) -> list[Row]:
    where = f"stage=pairs-{partition_name(model.method)}"
    if model.warehouse.current("metrics", where) is None:
        return []
    return model.warehouse.read("metrics", where).select(["position", "name", "value"]).to_pylist()


def _dates(partitions: Mapping[str, Any]) -> list[str]:
    return sorted(name.removeprefix("dt=") for name in partitions if name.startswith("dt="))


def _texts(dates: Sequence[dt.date]) -> list[str]:
    return sorted(str(date) for date in dates)
