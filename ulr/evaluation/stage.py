"""Models judged on held-out queries: totals of every partition, added up and published."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from itertools import combinations
from operator import add
from typing import Any

from pyspark.sql import SparkSession

from ulr.config.settings import Evaluate
from ulr.errors import UserError
from ulr.evaluation.metrics import EvaluationPlan
from ulr.evaluation.tasks import EVALUATED, evaluate_partition
from ulr.evaluation.totals import Totals, metrics_table, read_totals
from ulr.features.copartition import JoinInputs, gather
from ulr.features.files import find_features
from ulr.models.booster import check_order
from ulr.propensity.examination import Examination
from ulr.warehouse.stage import fingerprint, fingerprint_of
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Outcome, Warehouse, partition_name

NO_HOLDOUT = (
    "evaluate.holdout=query with pairs.test_fraction=0: no query was left out; set pairs.test_fraction "
    "and train again, or use evaluate.holdout=time"
)
TOTALS = "_totals.json"  # the totals themselves; a name that readers of the table pass over


@dataclass(frozen=True)
class EvaluationOutcome(Outcome):
    """With what was found."""

    totals: Totals


def build_evaluation(
    start_spark: Callable[[], SparkSession],
    warehouse: Warehouse,
    dates: Sequence[dt.date],
    models: Mapping[str, str],
    *,
    propensities: tuple[Examination, dict[str, Examination]],
    features: str,
    test_fraction: float,
    evaluate: Evaluate,
    sigmoid: float = 1.0,
    partition: str = "",
    force: bool = False,
) -> EvaluationOutcome:
    """Publish `metrics` of the models (name to LightGBM text; each against those after it)."""
    by_query = evaluate.holdout == "query"
    if by_query and test_fraction == 0:
        raise UserError(NO_HOLDOUT)
    days = [f"dt={date}" for date in dates]
    files = [f for day in days for f in warehouse.files("groups", day)]
    found = find_features(features)
    check_order(features, found[0].path, models)
    plan = _plan(models, propensities, evaluate, sigmoid)
    settings = evaluate.model_dump() | {
        "test_fraction": test_fraction if by_query else 0.0,
        "sigmoid": sigmoid,
    }
    inputs = {
        "groups": {day: warehouse.current("groups", day).fingerprint for day in days},
        "features": [[f.path.rpartition("/")[2], f.size, f.mtime_ns] for f in found],
        "models": {name: fingerprint(text) for name, text in models.items()},
        "propensities": fingerprint(_plain(plan)),
    }
    identity = fingerprint_of(inputs=inputs, settings=settings)
    where = f"stage=evaluate-{partition or next(iter(models))}"
    published = warehouse.current("metrics", where)
    if published and published.fingerprint == identity and not force:
        kept = warehouse.storage.read_json("metrics", where, published.folder, TOTALS)
        return EvaluationOutcome(published, True, read_totals(kept["totals"]))
    part = "test" if by_query else "all"
    sources = JoinInputs(
        warehouse.storage.url, files, features, [f.path for f in found], test_fraction, part
    )
    totals = evaluate_models(start_spark(), sources, models, plan, evaluate.partitions)
    if not totals.sums:
        raise UserError(f"no group of {days[0]} to {days[-1]} is held out; nothing to judge by")
    with warehouse.writing("metrics", where, identity) as draft:
        table = metrics_table(totals)
        folder = Storage(draft.url)
        folder.write_table(table, "part-00000.parquet")
        folder.write_json({"totals": totals.to_json()}, TOTALS)
        counts = {"rows": table.num_rows}
        manifest = draft.publish(identity, counts=counts, inputs=inputs, settings=settings)
    return EvaluationOutcome(manifest, False, totals)


def evaluate_models(
    spark: SparkSession,
    sources: JoinInputs,
    models: Mapping[str, str],
    plan: EvaluationPlan,
    partitions: int,
) -> Totals:
    """Evaluate models (name to LightGBM text) in Spark tasks; only totals are collected."""
    evaluate = partial(evaluate_partition, models=dict(models), plan=plan)
    rows = gather(spark, sources, partitions).mapInArrow(evaluate, EVALUATED).collect()
    return reduce(add, (read_totals(row.totals) for row in rows), Totals())


def _plan(
    models: Mapping[str, str],
    propensities: tuple[Examination, dict[str, Examination]],
    evaluate: Evaluate,
    sigmoid: float,
) -> EvaluationPlan:
    return EvaluationPlan(
        *propensities,
        cuts=evaluate.precision_cuts,
        max_label=evaluate.max_label,
        sigmoid=sigmoid,
        affine=evaluate.correction == "affine",
        segments=evaluate.segments,
        against=list(combinations(models, 2)),
    )


def _plain(plan: EvaluationPlan) -> dict[str, Any]:
    return {
        str(name): [None if v is None else v.tolist() for v in asdict(replace(p)).values()]
        for name, p in [(None, plan.pooled), *plan.by_segment.items()]
    }


def published_totals(warehouse: Warehouse, method: str, text: str) -> Totals | None:
    """Return the published totals of exactly this model (text), or None."""
    where = f"stage=evaluate-{partition_name(method)}"
    published = warehouse.current("metrics", where)
    if published is None or published.inputs["models"].get(method) != fingerprint(text):
        return None
    kept = warehouse.storage.read_json("metrics", where, published.folder, TOTALS)
    return read_totals(kept["totals"])
