"""The Estimator fitted on a DataFrame of shown documents."""

from __future__ import annotations

import lightgbm as lgb
import numpy as np
import pytest
from pyspark.ml import Pipeline, PipelineModel
from pyspark.ml.feature import VectorAssembler

from tests.support.shown_sessions import LIGHTGBM, NAMES, shown_sessions
from ulr.errors import UserError
from ulr.ml.estimator import UnbiasedLambdaMART
from ulr.ml.model import UnbiasedLambdaMARTModel


@pytest.fixture(scope="module")
def shown(spark):
    """Return sessions of six documents whose first feature is their relevance."""
    frame = shown_sessions(spark)
    return VectorAssembler(inputCols=NAMES, outputCol="features").transform(frame).cache()


def ranker(**more):
    return UnbiasedLambdaMART(
        qidCol="session", positionCol="position", labelCol="click", num_iterations=8,
        lightgbm=LIGHTGBM, **more,
    )  # fmt: skip


def test_predictions_are_those_of_the_booster_and_follow_relevance(shown):
    model = ranker(validationIndicatorCol="held_out", early_stopping_round=8, num_workers=2).fit(
        shown
    )
    scored = model.transform(shown).select("features", "prediction", "x0").toPandas()
    x = np.array([row.toArray() for row in scored["features"]], np.float32)
    np.testing.assert_array_equal(scored["prediction"], model.booster.predict(x))
    assert np.corrcoef(scored["prediction"], scored["x0"])[0, 1] > 0.6
    assert isinstance(model.booster, lgb.Booster)


def test_the_number_of_workers_does_not_change_the_model(shown):
    texts = {ranker(num_workers=n).fit(shown).model_text for n in (1, 2)}
    assert len(texts) == 1


def test_two_fits_in_one_folder_are_independent_and_leave_no_files(shown, tmp_path):
    other = shown.withColumn("click", 1.0 - shown["click"])
    first, second = (ranker(workPath=str(tmp_path)).fit(f).model_text for f in (shown, other))
    assert first != second
    assert list(tmp_path.iterdir()) == []


def test_positions_that_begin_at_0_are_an_error(shown):
    with pytest.raises(UserError, match="positionCol contains 0; positions begin at 1"):
        ranker().fit(shown.withColumn("position", shown["position"] - 1))


def test_a_pipeline_gives_the_same_scores_after_saving_and_loading(shown, tmp_path):
    raw = shown.drop("features")
    pipeline = Pipeline(stages=[
        VectorAssembler(inputCols=NAMES, outputCol="features"), ranker(predictionCol="score"),
    ])  # fmt: skip
    pipeline.write().overwrite().save(str(tmp_path / "pipeline"))
    loaded = Pipeline.load(str(tmp_path / "pipeline"))
    assert loaded.getStages()[1].getOrDefault("num_iterations") == 8
    fitted = loaded.fit(raw)
    fitted.write().overwrite().save(str(tmp_path / "model"))
    again = PipelineModel.load(str(tmp_path / "model"))
    assert isinstance(again.stages[1], UnbiasedLambdaMARTModel)
    columns = [m.transform(raw).select("score").toPandas()["score"] for m in (fitted, again)]
    np.testing.assert_array_equal(*columns)


def test_a_saved_model_that_was_changed_is_refused_before_lightgbm_reads_it(spark, shown, tmp_path):
    path = str(tmp_path / "model")
    ranker().fit(shown).write().save(path)
    content = spark.read.parquet(f"{path}/content").head().asDict()
    damaged = content | {"model": content["model"].replace("left_child=", "left_child=9999 ", 1)}
    changed = spark.createDataFrame([damaged], ", ".join(f"{name} string" for name in content))
    changed.write.mode("overwrite").parquet(f"{path}/content")
    with pytest.raises(UserError, match="is not a valid LightGBM text model"):
        UnbiasedLambdaMARTModel.load(path)


def test_parameters_are_set_and_read_like_those_of_spark():
    estimator = ranker(num_workers=3)
    assert estimator.getOrDefault(estimator.num_workers) == 3
    assert estimator.copy({estimator.num_iterations: 5}).getOrDefault("num_iterations") == 5
    assert estimator.getLabelCol() == "click"
    assert "barrier tasks" in estimator.explainParam("num_workers")
    with pytest.raises(TypeError):
        estimator.setParams(num_iterations="many")


def test_a_missing_list_column_is_a_clear_error(shown):
    with pytest.raises(UserError, match="qidCol is not set"):
        UnbiasedLambdaMART(labelCol="click", lightgbm=LIGHTGBM).fit(shown)
