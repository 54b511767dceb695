"""Collect the facts of a run: its tables, its settings and versions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from importlib import metadata
from platform import python_version
from typing import Any

from ulr.clicklog.quarantine import examples_of
from ulr.config.load import default_settings, flat
from ulr.config.settings import Settings
from ulr.evaluation.totals import Totals, metrics_table
from ulr.propensity.examination import WAREHOUSE
from ulr.redact import redact
from ulr.report.facts import NIGHT, Facts, Row
from ulr.report.tables import (
    PROPENSITIES,
    Model,
    all_traffic,
    days_of,
    night_metrics,
    propensity_parts,
    simulated_truth,
    trainings_of,
    weights_of,
)
from ulr.version import __version__
from ulr.warehouse.tables import Warehouse

LIBRARIES = ("lightgbm", "mlflow", "numba", "numpy", "pyarrow", "pyspark")
# The parts of the facts that a stage of the night produces.
PARTS = {"propensities": tuple(PROPENSITIES), "pairs": ("weights",), "train": ("trainings",),
         "evaluate": ("metrics",)}  # fmt: skip


def night_facts(
    warehouse: Warehouse,
    summary: Mapping[str, Any],
    settings: Settings,
    *,
    methods: Sequence[str],
    window: Sequence[dt.date],
    trained: Sequence[dt.date],
    evaluated_on: str,
) -> Facts:
    """Collect the facts of a night.

    summary: of the table `nights`; methods: the night's model, then the baselines.
    """
    stages = list(summary["stages"])
    models = [Model(method, method, warehouse) for method in methods]
    propensities, missing = propensity_parts(warehouse, window)
    parts: dict[str, Any] = {
        **propensities,
        "weights": weights_of(models, trained),
        "trainings": trainings_of(models, trained),
        "metrics": night_metrics(models[0], trained),
    }
    not_produced = _not_produced(stages)
    return Facts(
        kind=NIGHT,
        name=summary["date"],
        evaluated_on=evaluated_on,
        methods=list(methods),
        metric=settings.promote.metric,
        stages=[{k: v for k, v in s.items() if k != "details"} for s in stages],
        verdict=next((s["details"] for s in stages if s["stage"] == "promote"), None) or None,
        missing=missing | not_produced,
        **_data_and_settings(warehouse, settings, window),
        **{name: value for name, value in parts.items() if name not in not_produced},
    )


def comparison_facts(
    kind: str,
    name: str,
    warehouse: Warehouse,
    models: Sequence[Model],
    settings: Settings,
    *,
    metric: str,
    totals: Totals,
    window: Sequence[dt.date],
    trained: Sequence[dt.date],
    variants: Mapping[str, Settings],
) -> Facts:
    """Collect the facts of a comparison or a re-run.

    warehouse: has the groups; variants: the settings of every model, the first model's first.
    """
    propensities: dict[str, Any]
    propensities, missing = propensity_parts(models[0].warehouse, window)
    if settings.pairs.propensities != WAREHOUSE:
        reason = "Examination was not estimated: `pairs.propensities` names a file with its values."
        propensities, missing = {}, dict.fromkeys(PROPENSITIES, reason)
    return Facts(
        kind=kind,
        name=name,
        methods=[model.name for model in models],
        metric=metric,
        metrics=all_traffic(metrics_table(totals).to_pylist()),
        weights=weights_of(models, trained),
        trainings=trainings_of(models, trained),
        missing=missing,
        variants=differences(variants),
        **_data_and_settings(warehouse, settings, window),
        **propensities,
    )


def differences(variants: Mapping[str, Settings]) -> dict[str, dict[str, str]]:
    """Return, by model, the settings other than the method that differ from the first model's."""
    every = {name: flat(s.model_dump(mode="json")) for name, s in variants.items()}
    first = next(iter(every.values()))
    changed = {name: {key: value for key, value in own.items()
                      if first.get(key) != value and key != "pairs.method"}
               for name, own in every.items()}  # fmt: skip
    return {name: redact(settings) for name, settings in changed.items() if settings}


def _not_produced(stages: Sequence[Row]) -> dict[str, str]:
    """Return the parts that this night did not produce, and why."""
    failed = next((n for n, s in enumerate(stages) if s["status"] == "failed"), len(stages))
    reasons: dict[str, str] = {}
    for n, stage in enumerate(stages[failed:], failed):
        name = stage["stage"]
        reason = f"Stage {name} failed: {stage['message']}"
        if n > failed:
            reason = f"Stage {name} did not run: the night failed in {stages[failed]['stage']}."
        reasons |= dict.fromkeys(PARTS.get(name, ()), reason)
    return reasons


def _data_and_settings(
    warehouse: Warehouse, settings: Settings, window: Sequence[dt.date]
) -> dict[str, Any]:
    """Return the parts about the log, the settings without secrets, and versions."""
    days = days_of(warehouse, window)
    unused = {"simulate", "plan_swaps"}
    own, default = (flat(s.model_dump(mode="json", exclude=unused))
                    for s in (settings, default_settings()))  # fmt: skip
    libraries = {name: metadata.version(name) for name in LIBRARIES}
    return {
        "window": [str(date) for date in window],
        "days": days,
        "quarantine": examples_of(warehouse, [day["date"] for day in days]),
        "truth": simulated_truth(settings),
        "settings": redact(own),
        "changed": [name for name, value in own.items() if default.get(name) != value],
        "versions": {"ulr": __version__, "python": python_version(), **libraries},
    }
