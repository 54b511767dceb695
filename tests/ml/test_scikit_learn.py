"""`Ranker` in scikit-learn's tools, and in place of LGBMRanker."""

from __future__ import annotations

import io

import joblib
import lightgbm as lgb
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from tests.support.sessions import session_rows
from ulr import Ranker
from ulr.errors import UserError

ROWS = session_rows(queries=80, sessions=8)
OTHER = session_rows(queries=40, sessions=8, seed=7)
FEW = {"n_estimators": 5, "num_leaves": 4, "min_child_weight": 0.1, "n_jobs": 1,
       "early_stopping_rounds": 0}  # fmt: skip
SESSION = np.repeat(np.arange(ROWS.group.size), ROWS.group)
BY_ROW = {"qid": SESSION, "position": ROWS.position}


def ranker(**more):
    return Ranker("joint", ROWS.psi, **{**FEW, **more})


def text(model):
    return model.booster_.model_to_string()


def score(model, x, clicks):
    return float(np.corrcoef(model.predict(x), clicks)[0, 1])


def test_a_grid_search_splits_by_query_and_finds_the_better_value():
    search = GridSearchCV(
        ranker(), {"n_estimators": [1, 25]}, scoring=score, cv=GroupKFold(3), n_jobs=1
    )
    search.fit(ROWS.x, ROWS.clicks, groups=ROWS.query.to_pylist(), **BY_ROW)
    assert search.best_params_ == {"n_estimators": 25}
    assert text(search.best_estimator_) == text(
        ranker(n_estimators=25).fit(ROWS.x, ROWS.clicks, **BY_ROW)
    )


def test_cross_validation_runs_in_processes():
    scores = cross_val_score(
        ranker(), ROWS.x, ROWS.clicks, groups=ROWS.query.to_pylist(), scoring=score,
        cv=GroupKFold(2), params=BY_ROW, n_jobs=2,
    )  # fmt: skip
    assert scores.shape == (2,)
    assert (scores > 0).all()


def test_the_last_step_of_a_pipeline_takes_sessions():
    pipeline = make_pipeline(StandardScaler(), ranker())
    pipeline.fit(ROWS.x, ROWS.clicks, ranker__group=ROWS.group, ranker__position=ROWS.position)
    scaled = StandardScaler().fit_transform(ROWS.x)
    alone = ranker().fit(scaled, ROWS.clicks, group=ROWS.group, position=ROWS.position)
    np.testing.assert_array_equal(pipeline.predict(ROWS.x), alone.predict(scaled))


def test_joblib_stores_a_fitted_model():
    model = ranker().fit(ROWS.x, ROWS.clicks, group=ROWS.group)
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    again = joblib.load(file)
    np.testing.assert_array_equal(again.predict(ROWS.x), model.predict(ROWS.x))
    assert again.n_features_in_ == model.n_features_in_
    with pytest.raises(UserError, match=r"X has 3 features, but Ranker is expecting 8"):
        again.predict(ROWS.x[:, :3])


def fit_like_lightgbm(model, **more):
    return model.fit(
        ROWS.x, ROWS.clicks, group=ROWS.group, eval_set=[(OTHER.x, OTHER.clicks)],
        eval_group=[OTHER.group], callbacks=[lgb.early_stopping(3, verbose=False)], **more,
    )  # fmt: skip


def test_a_call_of_lgbmranker_trains_ours_with_its_early_stopping():
    few = {"n_estimators": 40, "num_leaves": 7, "learning_rate": 0.3, "random_state": 1}
    theirs = fit_like_lightgbm(lgb.LGBMRanker(verbose=-1, **few))
    ours = fit_like_lightgbm(Ranker("joint", ROWS.psi, min_child_weight=0.1, **few))
    for model in (theirs, ours):
        assert model.predict(OTHER.x).shape == (len(OTHER.x),)
        assert len(model.feature_importances_) == ROWS.x.shape[1]
        assert model.best_iteration_ < 40
    assert len(ours.history_) == ours.best_iteration_ + 3
    by_parameter = Ranker("joint", ROWS.psi, min_child_weight=0.1, early_stopping_rounds=3, **few)
    by_parameter.fit(ROWS.x, ROWS.clicks, group=ROWS.group, eval_set=(OTHER.x, OTHER.clicks),
                     eval_group=OTHER.group)  # fmt: skip
    assert text(by_parameter) == text(ours)


def test_arguments_that_change_no_model_are_accepted():
    plain = ranker().fit(ROWS.x, ROWS.clicks, group=ROWS.group)
    more = ranker().fit(
        ROWS.x, ROWS.clicks, group=ROWS.group, sample_weight=None, categorical_feature="auto",
        eval_names=["other"], callbacks=[lgb.log_evaluation(10)],
    )  # fmt: skip
    assert text(plain) == text(more)


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ({"sample_weight": np.ones(len(ROWS.x))}, "sample_weight is not supported; sessions count"),
        ({"categorical_feature": [0]}, "categorical_feature is not supported; encode"),
        ({"eval_metric": "ndcg"}, "eval_metric is not supported; .* early_stopping_metric"),
        ({"callbacks": [lgb.reset_parameter(learning_rate=[0.1])]}, "callback .* not supported"),
    ],
)
def test_arguments_without_a_meaning_here_name_what_to_use(argument, message):
    with pytest.raises(UserError, match=message):
        ranker().fit(ROWS.x, ROWS.clicks, group=ROWS.group, **argument)


def test_an_unknown_argument_is_a_type_error():
    with pytest.raises(TypeError, match="unexpected keyword argument 'nothing'"):
        ranker().fit(ROWS.x, ROWS.clicks, group=ROWS.group, nothing=1)
