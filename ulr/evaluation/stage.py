"""Models judged on held-out queries: totals of every partition, added up and published."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from itertools import combinations
from operator import add
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from ulr.config.settings import Evaluate
from ulr.errors import UserError
from ulr.evaluation.metrics import EvaluationPlan, evaluate_partition
from ulr.evaluation.totals import Totals, metrics_table, read_totals
from ulr.features.copartition import JoinInputs, copartition, read_partition
from ulr.features.files import find_features
from ulr.groups.window import groups_files, groups_fingerprints
from ulr.models.booster import check_order, load_scorer
from ulr.propensity.examination import Examination
from ulr.warehouse.stage import fingerprint, publish_if_changed
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import (
    Manifest,
    Outcome,
    Warehouse,
    WriteTransaction,
    partition_name,
)

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
    feature_files = find_features(features)
    check_order(feature_files, models)
    plan = _plan(models, propensities, evaluate, sigmoid)
    sources = JoinInputs(
        warehouse.storage.url,
        groups_files(warehouse, dates),
        features,
        feature_files.paths,
        test_fraction,
        "test" if by_query else "all",
    )

    def write(metrics: WriteTransaction) -> Totals:
        totals = evaluate_models(start_spark(), sources, models, plan, evaluate.partitions)
        if not totals.sums:
            raise UserError(
                f"no group of dt={dates[0]} to dt={dates[-1]} is held out; nothing to judge by"
            )
        table = metrics_table(totals)
        metrics.write_table(table)
        Storage(metrics.url).write_json({"totals": totals.to_json()}, TOTALS)
        metrics.publish({"rows": table.num_rows})
        return totals

    outcome, totals = publish_if_changed(
        warehouse,
        "metrics",
        f"stage=evaluate-{partition or next(iter(models))}",
        inputs={
            "groups": groups_fingerprints(warehouse, dates),
            "features": feature_files.identity,
            "models": {name: fingerprint(text) for name, text in models.items()},
            "propensities": fingerprint(_plain(plan)),
        },
        settings=evaluate.model_dump()
        | {"test_fraction": test_fraction if by_query else 0.0, "sigmoid": sigmoid},
        write=write,
        force=force,
    )
    if totals is None:
        totals = _published_totals(warehouse, outcome.manifest)
    return EvaluationOutcome(outcome.manifest, outcome.skipped, totals)


def evaluate_models(
    spark: SparkSession,
    sources: JoinInputs,
    models: Mapping[str, str],
    plan: EvaluationPlan,
    partitions: int,
) -> Totals:
    """Judge where the data is; only totals come back."""
    judge = partial(_judge_part, models=dict(models), plan=plan)
    rows = copartition(spark, sources, partitions).mapInArrow(judge, "totals string").collect()
    return reduce(add, (read_totals(row.totals) for row in rows), Totals())


def _judge_part(
    batches: Iterator[pa.RecordBatch], *, models: dict[str, str], plan: EvaluationPlan
) -> Iterator[pa.RecordBatch]:
    number, groups, features = read_partition(batches)
    if number is not None:
        scorers = {name: load_scorer(text, name) for name, text in models.items()}
        found = evaluate_partition(groups, features, scorers, plan)
        yield pa.RecordBatch.from_pydict({"totals": [found.to_json()]})


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


def last_totals(warehouse: Warehouse, method: str, text: str) -> Totals | None:
    """Return the published totals of this model text, or None."""
    published = warehouse.current("metrics", f"stage=evaluate-{partition_name(method)}")
    if published is None or published.inputs["models"].get(method) != fingerprint(text):
        return None
    return _published_totals(warehouse, published)


def _published_totals(warehouse: Warehouse, published: Manifest) -> Totals:
    where = (published.table, published.partition, published.folder, TOTALS)
    return read_totals(json.loads(warehouse.storage.read_text(*where))["totals"])
