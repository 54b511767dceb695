"""Features, parameters and results of the Estimator."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from pyspark.ml.feature import VectorAssembler
from pyspark.sql import functions as F

from tests.support.shown_sessions import LIGHTGBM, NAMES, shown_sessions
from ulr.config.load import default_settings
from ulr.errors import UserError
from ulr.ml.estimator import UnbiasedLambdaMART
from ulr.ml.model import UnbiasedLambdaMARTModel


@pytest.fixture(scope="module")
def shown(spark):
    return shown_sessions(spark).withColumn("array", F.array(*NAMES)).cache()


def ranker(**more):
    settings = {"qidCol": "session", "positionCol": "position", "labelCol": "click",
                "featuresCol": NAMES, "num_iterations": 8, "lightgbm": LIGHTGBM}  # fmt: skip
    return UnbiasedLambdaMART(**{**settings, **more})


@pytest.fixture(scope="module")
def model(shown):
    return ranker(validationIndicatorCol="held_out", early_stopping_round=8).fit(shown)


def predictions(model, frame):
    scored = model.transform(frame).orderBy("session", "position")
    return scored.select("prediction").toPandas()["prediction"].to_numpy()


def test_columns_an_array_and_a_vector_give_one_model_and_columns_name_its_features(shown, model):
    assert model.featureNames == NAMES
    vectors = VectorAssembler(inputCols=NAMES, outputCol="vector").transform(shown)
    array, vector = (ranker(featuresCol=name).fit(vectors) for name in ("array", "vector"))
    assert array.model_text == vector.model_text
    np.testing.assert_array_equal(
        predictions(array, shown), predictions(ranker().fit(shown), shown)
    )


def test_a_null_among_the_features_is_a_missing_value(shown):
    hole = shown.withColumn("x1", F.when(F.col("position") % 2 == 0, F.col("x1")))
    nan = hole.withColumn("x1", F.coalesce("x1", F.lit(float("nan"))))
    texts = {ranker().fit(frame).model_text for frame in (hole, nan)}
    arrays = [frame.withColumn("array", F.array(*NAMES)) for frame in (hole, nan)]
    unnamed = {ranker(featuresCol="array").fit(frame).model_text for frame in arrays}
    weighted = {ranker(featuresCol="array", weightCol="one").fit(f.withColumn("one", F.lit(1.0)))
                .model_text for f in arrays}  # fmt: skip
    assert len(texts) == len(unnamed) == len(weighted) == 1
    model = ranker().fit(hole)
    scores = predictions(model, hole)
    np.testing.assert_array_equal(scores, predictions(model, nan))
    assert np.isfinite(scores).all()


def test_a_row_without_features_is_a_clear_error(shown):
    missing = shown.withColumn("array", F.when(F.col("position") > 1, F.col("array")))
    with pytest.raises(UserError, match=r"featuresCol has \d+ null"):
        ranker(featuresCol="array").fit(missing)


def test_a_text_column_is_refused_with_what_to_do(shown):
    with pytest.raises(UserError, match="column session has type string; encode it as numbers"):
        ranker(featuresCol=["x0", "session"]).fit(shown)


def test_lightgbm_parameters_are_merged_with_the_defaults():
    settings = UnbiasedLambdaMART(lightgbm={"num_leaves": 7, "eta": 0.3})._settings()
    expected = {**default_settings().lightgbm, "num_leaves": 7, "learning_rate": 0.3}
    assert settings.lightgbm == expected


def test_every_parameter_has_a_setter_and_a_getter():
    estimator = UnbiasedLambdaMART()
    for param in estimator.params:
        name = "".join(word[:1].upper() + word[1:] for word in param.name.split("_"))
        assert callable(getattr(estimator, f"get{name}"))
        assert callable(getattr(estimator, f"set{name}"))
    chained = estimator.setQidCol("s").setNumWorkers(3).setL2(0.5).setFeaturesCol(["a", "b"])
    assert chained is estimator
    values = (estimator.getQidCol(), estimator.getNumWorkers(), estimator.getL2())
    assert values == ("s", 3, 0.5)
    assert estimator.getFeaturesCol() == ["a", "b"]


def test_names_of_other_libraries_are_accepted_but_not_two_for_one_parameter():
    own = UnbiasedLambdaMART(groupCol="s", n_estimators=5, early_stopping_rounds=2)
    assert (own.getQidCol(), own.getNumIterations(), own.getEarlyStoppingRound()) == ("s", 5, 2)
    assert own.setGroupCol("t").getGroupCol() == "t"
    with pytest.raises(UserError, match="n_estimators and num_iterations are two names"):
        UnbiasedLambdaMART(num_iterations=3, n_estimators=4)
    with pytest.raises(
        UserError, match=r"no parameter num_leaves.*given as lightgbm=\{'num_leaves'"
    ):
        UnbiasedLambdaMART(num_leaves=3)
    with pytest.raises(UserError, match=r"no parameter num_worker \(did you mean num_workers\?\)"):
        UnbiasedLambdaMART(num_worker=3)


def test_what_training_learned_is_kept_when_a_model_is_saved(shown, model, tmp_path):
    assert set(model.biases) == {"t_plus", "t_minus"}
    assert model.biases["t_plus"].shape == (6,)
    assert model.biases["t_plus"][0] == 1
    assert len(model.history) == 8
    model.write().save(str(tmp_path / "model"))
    loaded = UnbiasedLambdaMARTModel.load(str(tmp_path / "model"))
    assert loaded.history == model.history
    for name, values in model.biases.items():
        np.testing.assert_array_equal(loaded.biases[name], values)
    np.testing.assert_array_equal(predictions(loaded, shown), predictions(model, shown))
    with pytest.raises(Exception, match="PATH_ALREADY_EXISTS"):
        model.write().save(str(tmp_path / "model"))


def test_importances_are_those_of_the_booster(model):
    for kind in ("split", "gain"):
        expected = model.booster.feature_importance(importance_type=kind)
        model.setImportanceType(kind)
        np.testing.assert_array_equal(model.featureImportances.toArray(), expected)
    assert np.argmax(model.featureImportances.toArray()) == 0
    with pytest.raises(UserError, match="importanceType = 'cover': expected split or gain"):
        model.copy().setImportanceType("cover").featureImportances  # noqa: B018


def test_contributions_of_the_features_add_up_to_the_score(shown, model):
    scored = model.copy().setContribCol("why").transform(shown).toPandas()
    why = np.stack(scored["why"])
    assert why.shape == (720, len(NAMES) + 1)
    np.testing.assert_allclose(why.sum(axis=1), scored["prediction"], atol=1e-9)
    x = scored[NAMES].to_numpy(np.float32)
    np.testing.assert_array_equal(why, model.booster.predict(x, pred_contrib=True))


def test_a_linear_ranker_has_no_contributions(shown):
    model = ranker(ranker="linear", method="naive").fit(shown)
    with pytest.raises(UserError, match="no contributions of a linear ranker"):
        model.copy().setContribCol("why").transform(shown)
    assert len(np.unique(predictions(model, shown))) > 700


def test_an_estimator_is_saved_with_its_propensities(shown, tmp_path):
    frame = pd.DataFrame({"position": np.arange(1, 7), "theta": 1 / np.arange(1, 7)})
    own = ranker(method="pns", propensities=frame, early_stopping_round=0)
    own.write().overwrite().save(str(tmp_path / "estimator"))
    loaded = UnbiasedLambdaMART.load(str(tmp_path / "estimator"))
    assert loaded.getLightgbm() == LIGHTGBM
    assert loaded.fit(shown).model_text == own.fit(shown).model_text
