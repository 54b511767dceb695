"""Evaluate models on held-out queries and publish the table `metrics`."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial, reduce
from itertools import combinations
from operator import add
from typing import Any

import numpy as np

from ulr.config.inputs import Features
from ulr.config.settings import Evaluate
from ulr.engine.interface import Engine
from ulr.errors import UserError
from ulr.evaluation.metrics import EvaluationPlan
from ulr.evaluation.tasks import Model, evaluate_partition
from ulr.evaluation.totals import STAGE, Totals, metrics_table, read_totals
from ulr.features.source import open_features
from ulr.features.split import Split
from ulr.features.stage import WindowInputs, WindowTable, gather_window
from ulr.models.booster import check_features
from ulr.pairs.gains import NO_FEEDBACK, increments_of, recorded
from ulr.propensity.examination import Examination
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.stage import fingerprint, publish_if_changed
from ulr.warehouse.table_files import TableFiles
from ulr.warehouse.tables import Outcome, Warehouse, partition_name
from ulr.warehouse.transaction import WriteTransaction

NO_HOLDOUT = (
    "evaluate.holdout=query with pairs.test_fraction=0: no queries are held out; set "
    "pairs.test_fraction and train again, or use evaluate.holdout=time"
)
# The sums that the table is computed from; readers of tables skip names that begin with _.
TOTALS = "_totals.json"
FORMAT = "totals with propensity errors"  # its key; earlier versions wrote another one


@dataclass(frozen=True)
class EvaluationOutcome(Outcome):
    """The published table with its totals."""

    totals: Totals = field(default_factory=Totals)


def build_evaluation(
    engine: Engine,
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    models: Mapping[str, str],
    *,
    propensities: tuple[Examination, dict[str, Examination]],
    features: Features,
    test_fraction: float,
    evaluate: Evaluate,
    sigmoid: float = 1.0,
    feedback: Mapping[str, float] = NO_FEEDBACK,
    partition: str = "",
    force: bool = False,
) -> EvaluationOutcome:
    """Publish `metrics` of the models and of the difference between every two of them.

    models: LightGBM text by name. feedback: gains of events.
    """
    by_query = evaluate.holdout == "query"
    if by_query and test_fraction == 0:
        raise UserError(NO_HOLDOUT)
    source = open_features(engine, warehouse, features, dates)
    names = source.names()
    check_features(names, source.where, models)
    window_inputs = WindowInputs(
        warehouse, dates, source, use="test", partitions=evaluate.partitions
    )
    increments = increments_of(feedback, window_inputs.levels)
    plan = EvaluationPlan(
        evaluate, *propensities, sigmoid, list(combinations(models, 2)), increments
    )

    def write(metrics: WriteTransaction) -> Totals:
        window = gather_window(engine, window_inputs, force=force)
        totals = evaluate_models(
            engine, window, models, plan, names=names,
            split="test" if by_query else "all", test_fraction=test_fraction,
        )  # fmt: skip
        if not totals.sums:
            raise UserError(
                f"no held-out query has groups from {dates[0]} to {dates[-1]}; evaluate on more "
                "dates, or hold out more queries (pairs.test_fraction) and train again"
            )
        _publish_totals(metrics, totals)
        return totals

    outcome, totals = publish_if_changed(
        warehouse,
        "metrics",
        _partition(partition or next(iter(models))),
        inputs=_inputs(window_inputs, models, plan) | recorded(increments),
        settings=evaluate.model_dump()
        | {"test_fraction": test_fraction if by_query else 0.0, "sigmoid": sigmoid},
        write=write,
        force=force,
    )
    totals = totals or _read_totals(warehouse, outcome.manifest) or Totals()
    return EvaluationOutcome(outcome.manifest, outcome.skipped, outcome.damage, totals)


def _inputs(
    window: WindowInputs, models: Mapping[str, str], plan: EvaluationPlan
) -> dict[str, Any]:
    return {
        "groups": window.fingerprints["groups"],
        "features": window.features.identity,
        "models": {name: fingerprint(text) for name, text in models.items()},
        "propensities": fingerprint(_examination_values(plan)),
    }


def evaluate_models(
    engine: Engine,
    window: WindowTable,
    models: Mapping[str, Model],
    plan: EvaluationPlan,
    *,
    names: Sequence[str] = (),
    split: Split = "all",
    test_fraction: float = 0.0,
) -> Totals:
    """Evaluate models by name in tasks; the driver collects totals only.

    names: of the features of the window, if known.
    """
    evaluate = partial(evaluate_partition, models=dict(models), plan=plan.for_tasks(), names=names)
    parts = window.map(engine, evaluate, split=split, test_fraction=test_fraction)
    totals = (read_totals(part["totals"][0].as_py()) for part in parts)
    return reduce(add, totals, Totals()).with_propensity_errors(plan.scatter)


def published_totals(warehouse: Warehouse, method: str, text: str) -> Totals | None:
    """Return the published totals of a method's model.

    None if they are of another model, or if an earlier version published them. text: the model in
    LightGBM's text format.
    """
    manifest = warehouse.current("metrics", _partition(partition_name(method)))
    if manifest is None or manifest.inputs["models"].get(method) != fingerprint(text):
        return None
    return _read_totals(warehouse, manifest)


def _publish_totals(metrics: WriteTransaction, totals: Totals) -> None:
    table = metrics_table(totals)
    metrics.write_table(table)
    TableFiles(metrics.url).write_json({FORMAT: totals.to_json()}, TOTALS)
    metrics.publish({"rows": table.num_rows})


def _partition(name: str) -> str:
    return f"stage={STAGE}-{name}"


def _read_totals(warehouse: Warehouse, manifest: Manifest) -> Totals | None:
    """Return the published totals, or None if an earlier version wrote them."""
    text = json.loads(warehouse.read_file(manifest, TOTALS)).get(FORMAT)
    return None if text is None else read_totals(text)


def _examination_values(plan: EvaluationPlan) -> dict[str, Any]:
    """Return the propensities and their errors as JSON values, for the fingerprint."""
    curves = {
        str(name): [_plain(getattr(own, f.name)) for f in fields(own) if f.name != "errors"]
        for name, own in [(None, plan.pooled), *plan.by_segment.items()]
    }
    errors = plan.pooled.errors
    if errors is not None:
        values = errors.covariance, errors.psi_slope, errors.psi_covariance
        curves["errors"] = [hashlib.sha256(v.tobytes()).hexdigest() for v in values]
    return curves


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray) else value
