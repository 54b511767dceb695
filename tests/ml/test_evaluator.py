"""`RankingEvaluator`: values of plain loops, and model selection by Spark's tuning."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.tuning import CrossValidator, ParamGridBuilder, TrainValidationSplit
from pyspark.sql import functions as F

from tests.support.oracle_pairs import average_precision, ndcg, reciprocal_rank, relevant_position
from tests.support.shown_sessions import LIGHTGBM, NAMES, shown_sessions
from ulr import RankingEvaluator, UnbiasedLambdaMART
from ulr.errors import UserError

THETA = [1.0, 0.6, 0.45, 0.3, 0.2]
COLUMNS = {"qidCol": "session", "positionCol": "position", "labelCol": "label"}


@pytest.fixture(scope="module")
def lists():
    """Return lists of five documents with grades, clicks and scores; a fifth has no relevance."""
    rng = np.random.default_rng(8)
    rows = [
        {"session": f"s{s}", "position": k, "grade": int(rng.integers(0, 5)) * (s % 5 > 0),
         "click": int(rng.random() < THETA[k - 1] / 2), "prediction": float(rng.normal())}
        for s in range(60) for k in range(1, 6)
    ]  # fmt: skip
    return pd.DataFrame(rows)


def evaluate(spark, lists, label, **more):
    frame = spark.createDataFrame(lists.sample(frac=1, random_state=1))
    frame = frame.withColumn("label", F.col(label).cast("double"))
    return RankingEvaluator(**COLUMNS, **more).evaluate(frame)


def mean_over_lists(lists, function):
    values = [
        function(own.prediction.tolist(), own.grade.tolist())
        for _, own in lists.groupby("session")
        if own.grade.max() > 0
    ]
    return sum(values) / len(values)


@pytest.mark.parametrize(
    ("settings", "function"),
    [
        ({"metricName": "ndcg", "k": 3}, lambda s, y: ndcg(s, y, 3)),
        ({"metricName": "ndcg_at_2"}, lambda s, y: ndcg(s, y, 2)),
        ({"metricName": "map"}, average_precision),
        ({"metricName": "mean_relevant_rank"}, relevant_position),
        ({"metricName": "err", "maxLabel": 4}, lambda s, y: reciprocal_rank(s, y, 4)),
    ],
    ids=lambda own: own.get("metricName") if isinstance(own, dict) else "",
)
def test_metrics_of_labels_are_means_over_lists(spark, lists, settings, function):
    value = evaluate(spark, lists, "grade", **settings)
    assert value == pytest.approx(mean_over_lists(lists, function), rel=1e-12)


@pytest.mark.parametrize(
    ("name", "gain"),
    [
        ("dcg", lambda rank: 1 / math.log2(rank + 1)),
        ("mean_relevant_rank", float),
        ("precision", lambda rank: (rank <= 2) / 2),
    ],
)
def test_estimates_from_clicks_are_weighted_by_propensities(spark, lists, name, gain):
    total = weights = 0.0
    for _, own in lists.groupby("session"):
        rank = own.prediction.rank(ascending=False)
        for position, click, at in zip(own.position, own.click, rank, strict=True):
            total += click / THETA[position - 1] * gain(at)
            weights += click / THETA[position - 1]
    expected = {"ips": total / 60, "snips": total / weights}
    for kind, value in expected.items():
        ours = evaluate(spark, lists, "click", metricName=f"{kind}_{name}", k=2,
                        propensities=THETA)  # fmt: skip
        assert ours == pytest.approx(value, rel=1e-9)


def test_equal_predictions_are_not_ranked_as_shown_nor_by_label(spark):
    rows = [{"session": f"s{s}", "position": k, "label": float(k == 1), "prediction": 0.0}
            for s in range(400) for k in range(1, 5)]  # fmt: skip
    frame = spark.createDataFrame(pd.DataFrame(rows))
    labels = RankingEvaluator(**COLUMNS, metricName="mean_relevant_rank").evaluate(frame)
    clicks = RankingEvaluator(
        **COLUMNS, metricName="snips_mean_relevant_rank", propensities=[1.0] * 4
    ).evaluate(frame)
    error = math.sqrt((16 - 1) / 12 / 400)  # of a mean of 400 ranks from 1 to 4
    assert labels == pytest.approx(2.5, abs=4 * error)
    assert clicks == pytest.approx(2.5, abs=4 * error)


def test_lower_is_better_only_for_ranks_and_losses():
    larger = {name: RankingEvaluator(metricName=name).isLargerBetter()
              for name in ("ndcg", "map", "snips_dcg", "ips_precision_at_3", "err",
                           "snips_mean_relevant_rank", "pair_loss")}  # fmt: skip
    assert [name for name, better in larger.items() if not better] == [
        "snips_mean_relevant_rank", "pair_loss"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"metricName": "auc"}, "metricName = 'auc': expected one of ndcg, map"),
        ({"metricName": "ips_dcg"}, "estimates from clicks need propensities"),
        ({"k": 0}, "k = 0: expected an integer from 1"),
        ({"predictionCol": "score"}, "predictionCol = score: the DataFrame has no column score"),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(spark, lists, settings, message):
    with pytest.raises(UserError, match=message):
        evaluate(spark, lists, "click", **settings)


def test_lists_without_a_positive_label_have_no_metric(spark, lists):
    with pytest.raises(UserError, match="ndcg_at_10: no list has a positive label"):
        evaluate(spark, lists.assign(zero=0), "zero")


def test_an_evaluator_is_saved_and_loaded(tmp_path, spark):
    own = RankingEvaluator(qidCol="s", metricName="map", propensities=THETA).setK(3)
    own.write().save(str(tmp_path / "evaluator"))
    loaded = RankingEvaluator.load(str(tmp_path / "evaluator"))
    assert (loaded.getQidCol(), loaded.getMetricName(), loaded.getK()) == ("s", "map", 3)
    assert loaded.getPropensities() == THETA


@pytest.fixture(scope="module")
def tuning(spark):
    """Return an Estimator, an evaluator, a grid with one useless choice, and folded sessions."""
    columns = {"qidCol": "session", "positionCol": "position", "labelCol": "click"}
    ranker = UnbiasedLambdaMART(
        **columns, featuresCol=NAMES, num_iterations=8, lightgbm=LIGHTGBM, method="naive"
    )
    evaluator = RankingEvaluator(
        **columns, metricName="snips_dcg", propensities=[1 / k for k in range(1, 7)]
    )
    useful, useless = ["x0", "x1", "x2"], ["x1", "x2"]
    grid = ParamGridBuilder().addGrid(ranker.featuresCol, [useless, useful]).build()
    fold = F.pmod(F.xxhash64("session"), F.lit(3)).cast("int")
    return ranker, evaluator, grid, shown_sessions(spark).withColumn("fold", fold).cache()


def test_a_cross_validator_chooses_by_whole_lists(tuning):
    ranker, evaluator, grid, shown = tuning
    chosen = CrossValidator(
        estimator=ranker, evaluator=evaluator, estimatorParamMaps=grid, numFolds=3, foldCol="fold",
        parallelism=2,
    ).fit(shown)  # fmt: skip
    assert chosen.avgMetrics[1] > chosen.avgMetrics[0] + 0.02
    assert chosen.bestModel.featureNames == NAMES


def test_a_train_validation_split_works(tuning):
    ranker, evaluator, grid, shown = tuning
    chosen = TrainValidationSplit(
        estimator=ranker, evaluator=evaluator, estimatorParamMaps=grid, seed=1
    ).fit(shown)
    assert chosen.bestModel.featureNames == NAMES
