"""The arithmetic of a night in one process, without Spark and without a registry."""

from __future__ import annotations

import time
from collections.abc import Sequence

import lightgbm as lgb
import pyarrow as pa
import pyarrow.parquet as pq

from tests.support.in_memory import train_ranker
from ulr.config.settings import Settings
from ulr.evaluation.metrics import EvaluationPlan
from ulr.evaluation.tasks import evaluate_queries
from ulr.features.files import find_features
from ulr.features.join import join_features
from ulr.features.reading import read_features
from ulr.features.split import in_split, sample_queries
from ulr.features.window import load_histograms, tables_of
from ulr.groups.window import groups_files, window_dates
from ulr.pairs.config import make_pair_config
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.pairs.table import build_pair_table
from ulr.pairs.weightings import training_columns, validation_columns
from ulr.pipeline.fit import Trial, plan_of
from ulr.propensity.examination import load_examination
from ulr.training.data import read_pairs, split_queries
from ulr.warehouse.tables import Warehouse


def floor_seconds(settings: Settings, date: str, methods: Sequence[str]) -> dict[str, float]:
    """Return the seconds of each step, given the published groups and propensities of a night."""
    clock = _Clock()
    warehouse = Warehouse(settings.warehouse.path)
    dates = window_dates(warehouse, date, settings.propensities.window_days)
    groups = pa.concat_tables(pq.read_table(file) for file in groups_files(warehouse, dates))
    features = find_features(settings.features.path)
    rows = pa.concat_tables(t for part in features.parts() for t in read_features(features, part))
    window = join_features(groups, rows).combine_chunks()
    clock.tick("window")
    examination = load_examination(settings.pairs.propensities, warehouse)
    fraction = settings.pairs.test_fraction
    train = window.filter(pa.array(in_split(window["query_id"], fraction, "train")))
    tables = [
        _pairs(train.combine_chunks(), settings.with_method(method), examination)
        for method in methods
    ]
    clock.tick("pairs")
    models = {}
    for method, table in zip(methods, tables, strict=True):
        trial = Trial(method, warehouse, settings.with_method(method))
        data = read_pairs([table], training_columns(method))
        held = sample_queries(
            data.query_ids, trial.settings.train.validation_fraction, "validation"
        )
        validation = split_queries(read_pairs([table], [validation_columns(method)]), held)
        ranker = train_ranker(split_queries(data, ~held), plan_of(trial), validation=validation)
        models[method] = ranker.model_text()
    clock.tick("train")
    test = window.filter(pa.array(in_split(window["query_id"], fraction, "test")))
    plan = EvaluationPlan(settings.evaluate, *examination)
    scorers = {m: lgb.Booster(model_str=text).predict for m, text in models.items()}
    evaluate_queries(test.combine_chunks(), scorers, plan)
    clock.tick("evaluate")
    return clock.seconds


def _pairs(queries: pa.Table, settings: Settings, examination) -> pa.Table:
    options = settings.pairs.model_dump(
        exclude={"method", "propensities", "test_fraction", "partitions"}
    )
    options["co_click_variance"] = None
    config = make_pair_config(settings.pairs.method, *examination, **options)
    if config.psi is not None:
        (histograms,), segment = load_histograms(queries, config.depth)
        sums = co_click_sums(histograms, tables_of(segment, config.segments), config.psi)
        options["co_click_variance"] = prior_variance(sums)
        config = make_pair_config(settings.pairs.method, *examination, **options)
    return build_pair_table(queries, config)[0]


class _Clock:
    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._last = time.perf_counter()

    def tick(self, name: str) -> None:
        now = time.perf_counter()
        self.seconds[name], self._last = now - self._last, now
