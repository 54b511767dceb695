"""`Ranker`: training on sessions in memory, with scikit-learn's conventions."""

from __future__ import annotations

import pickle
import subprocess
import sys

import lightgbm as lgb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils import estimator_checks

from tests.support.sessions import session_rows
from ulr import Ranker
from ulr.errors import UserError
from ulr.ml.ranker import UnbiasedWarning

ROWS = session_rows()
FEW = {"n_estimators": 6, "num_leaves": 4, "min_child_weight": 0.1, "n_jobs": 1,
       "early_stopping_rounds": 0}  # fmt: skip


def ranker(method="joint", propensities=ROWS.psi, **more):
    return Ranker(method, propensities, **{**FEW, **more})


def fitted(rows=ROWS, *, ids=True, **more):
    return ranker(**more).fit(rows.x, rows.clicks, **rows.fit_arguments(ids=ids))


def text(model):
    return model.booster_.model_to_string()


@pytest.fixture(scope="module")
def model():
    return fitted()


def test_neither_spark_nor_mlflow_is_imported():
    code = """if True:
        import sys
        sys.modules.update(dict.fromkeys(("pyspark", "mlflow"), None))  # an import raises
        import numpy as np
        import ulr
        x = np.random.default_rng(1).normal(size=(40, 3))
        ranker = ulr.Ranker("pns", [1.0, 0.5], n_estimators=2, min_child_weight=0.01)
        ranker.fit(x, np.tile([1, 0], 20), group=[2] * 20)
        assert ranker.predict(x).shape == (40,)
        ulr.propensities, ulr.evaluate
    """
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_scores_are_those_of_the_booster(model):
    scores = model.predict(ROWS.x)
    np.testing.assert_array_equal(scores, model.booster_.predict(ROWS.x))
    assert scores.dtype == np.float64
    assert isinstance(model.booster_, lgb.Booster)
    assert model.n_features_in_ == ROWS.x.shape[1]
    assert model.best_iteration_ == 6
    assert model.history_ == []
    assert not hasattr(model, "feature_names_in_")


def test_contributions_and_leaves_are_lightgbms(model):
    contributions = model.predict(ROWS.x[:9], pred_contrib=True)
    np.testing.assert_allclose(contributions.sum(axis=1), model.predict(ROWS.x[:9]))
    assert model.predict(ROWS.x[:9], pred_leaf=True).shape == (9, 6)


def test_importances_are_splits_or_gain(model):
    assert model.feature_importances_.sum() == 6 * 3  # trees of four leaves
    gain = clone(model).set_params(importance_type="gain").fit(
        ROWS.x, ROWS.clicks, **ROWS.fit_arguments()
    ).feature_importances_  # fmt: skip
    np.testing.assert_array_equal(gain, model.booster_.feature_importance("gain"))


@pytest.mark.parametrize("method", ["naive", "robust", "robust+", "ips-all", "pns", "prs", "joint"])
def test_ids_of_documents_change_nothing_if_features_tell_them_apart(method):
    with_ids, without = fitted(method=method), ranker(method).fit(
        ROWS.x, ROWS.clicks, group=ROWS.group, position=ROWS.position, query=ROWS.query
    )  # fmt: skip
    assert text(with_ids) == text(without)


def test_sessions_without_ids_have_one_query_if_they_show_the_same_documents(model):
    """Each query of these sessions has one ranking: the sets of documents are the queries."""
    assert text(fitted(ids=False)) == text(model)
    reordered = np.arange(ROWS.x.shape[0]).reshape(-1, 6)[:, ::-1].reshape(-1)
    assert text(ranker().fit(
        ROWS.x[reordered], ROWS.clicks[reordered], group=ROWS.group,
        position=ROWS.position[reordered],
    )) == text(model)  # fmt: skip


def test_rows_may_come_in_any_order_with_session_ids(model):
    rng = np.random.default_rng(2)
    order = rng.permutation(len(ROWS.x))
    session = np.repeat(np.arange(ROWS.group.size), ROWS.group)[order]
    take = pa.array(order)
    shuffled = ranker().fit(
        ROWS.x[order], ROWS.clicks[order], qid=[f"s{n}" for n in session],
        position=ROWS.position[order], query=ROWS.query.take(take), doc=ROWS.doc.take(take),
    )  # fmt: skip
    assert text(shuffled) == text(model)


def test_without_positions_the_rows_are_in_displayed_order(model):
    other = ranker().fit(ROWS.x, ROWS.clicks, group=ROWS.group, query=ROWS.query, doc=ROWS.doc)
    assert text(other) == text(model)


@pytest.mark.parametrize("kind", [np.float64, np.float32, list, "pandas", "arrow", "polars"])
def test_features_of_any_kind_give_the_same_model(model, kind):
    names = [f"Column_{i}" for i in range(ROWS.x.shape[1])]
    if kind is list:
        x = ROWS.x.tolist()
    elif kind == "pandas":
        x = pd.DataFrame(ROWS.x, columns=names)
    elif kind == "arrow":
        x = pa.table(list(ROWS.x.T), names)
    elif kind == "polars":
        x = pytest.importorskip("polars").DataFrame(ROWS.x, schema=names)
    else:
        x = ROWS.x.astype(kind)
    other = ranker().fit(x, ROWS.clicks, **ROWS.fit_arguments())
    assert text(other) == text(model)
    np.testing.assert_array_equal(other.predict(x), model.predict(ROWS.x))


def test_named_columns_are_the_features_of_the_model():
    names = [f"feature {i}" for i in range(ROWS.x.shape[1])]
    frame = pd.DataFrame(ROWS.x, columns=names)
    named = ranker().fit(frame, ROWS.clicks, **ROWS.fit_arguments())
    assert named.feature_names_in_.tolist() == names
    assert named.feature_name_[0] == "feature_0"
    with pytest.raises(UserError, match="columns are in another order"):
        named.predict(frame[names[::-1]])
    with pytest.raises(UserError, match="no column feature 0"):
        named.predict(frame.rename(columns={"feature 0": "x"}))


def test_a_null_is_nan():
    x = ROWS.x.copy()
    x[::5, 2] = np.nan
    table = pa.table([pa.array(c, from_pandas=True) for c in x.T], [str(i) for i in range(8)])
    assert table["2"].null_count
    models = [ranker().fit(m, ROWS.clicks, **ROWS.fit_arguments()) for m in (x, table)]
    scores = [m.predict(m_x) for m, m_x in zip(models, (x, table), strict=True)]
    np.testing.assert_array_equal(*scores)


def test_a_position_without_a_row_counts_as_a_document_without_features():
    """The rows at position 2 are left out: the weights of the others must not change."""
    kept = ROWS.position != 2
    clicks = np.where(ROWS.position == 2, 0, ROWS.clicks)
    take = pa.array(np.flatnonzero(kept))
    gaps = ranker("robust").fit(
        ROWS.x[kept], clicks[kept], group=ROWS.group - 1, position=ROWS.position[kept],
        query=ROWS.query.take(take), doc=ROWS.doc.take(take),
    )  # fmt: skip
    theta = np.delete(ROWS.theta, 1)
    closed = ranker("robust", theta).fit(
        ROWS.x[kept], clicks[kept], group=ROWS.group - 1,
        query=ROWS.query.take(take), doc=ROWS.doc.take(take),
    )  # fmt: skip
    assert text(gaps) == text(closed)


def test_two_documents_of_a_session_may_have_equal_features():
    x = ROWS.x.copy()
    x[1::6] = x[0::6]
    model = ranker().fit(x, ROWS.clicks, **ROWS.fit_arguments(ids=False))
    assert model.best_iteration_ == 6
    doc = pa.array(np.where(ROWS.position <= 2, "a", "b"))
    with pytest.raises(UserError, match="a document is on the page twice"):
        ranker().fit(x, ROWS.clicks, group=ROWS.group, query=ROWS.query, doc=doc)


def test_features_that_change_within_a_document_are_warned_of():
    x = ROWS.x.copy()
    x[6:12] += 1  # the second session of the first query
    with pytest.warns(UnbiasedWarning, match="6 of .* rows differ"):
        ranker().fit(x, ROWS.clicks, **ROWS.fit_arguments())


def test_equal_documents_of_different_queries_stay_apart_without_ids_of_queries():
    """A document id that several queries share has the features of each query."""
    rows = session_rows(queries=8, sessions=3)
    doc = np.tile([f"d{i}" for i in range(6)], 24)
    model = ranker().fit(rows.x, rows.clicks, group=rows.group, doc=doc)
    assert text(model) == text(ranker().fit(rows.x, rows.clicks, group=rows.group))


def test_early_stopping_by_a_fraction_of_the_queries_or_by_an_eval_set():
    rows = session_rows(queries=300, sessions=8)
    more = {"n_estimators": 60, "early_stopping_rounds": 5, "learning_rate": 0.4}
    own = fitted(rows, propensities=rows.psi, validation_fraction=0.4, **more)
    assert own.best_iteration_ <= len(own.history_) <= 60
    assert own.best_score_ == own.history_[own.best_iteration_ - 1]
    other = session_rows(queries=120, sessions=8, seed=5)
    by_set = ranker(propensities=rows.psi, **more).fit(
        rows.x, rows.clicks, **rows.fit_arguments(), eval_set=[(other.x, other.clicks)],
        eval_group=[other.group], eval_position=[other.position], eval_query=[other.query],
        eval_doc=[other.doc],
    )  # fmt: skip
    assert len(by_set.history_) <= 60
    every = fitted(rows, propensities=rows.psi, n_estimators=by_set.best_iteration_,
                   learning_rate=0.4)  # fmt: skip
    assert text(by_set) == text(every)  # the eval set decides on the number of trees only


@pytest.mark.parametrize(
    ("method", "names"),
    [("unbiased-lambdamart", ["t_plus", "t_minus"]), ("dla", ["position_bias"])],
)
def test_learned_biases_need_no_propensities(method, names):
    model = fitted(method=method, propensities=None)
    assert list(model.biases_) == names
    assert all(values.shape == (6,) for values in model.biases_.values())
    assert model.biases_[names[0]][-1] < 1


def test_golden_labels_take_grades():
    grades = np.arange(len(ROWS.x)) % 5
    model = ranker("labels", None).fit(ROWS.x, grades, **ROWS.fit_arguments())
    assert model.best_iteration_ == 6


def test_a_linear_ranker_has_one_weight_per_feature():
    model = fitted(ranker="linear")
    assert model.booster_.num_trees() == 1


def test_a_clone_and_a_pickle_are_equal(model):
    parameters = ranker(max_bin=63, reg_alpha=0.5).get_params()
    assert parameters["max_bin"] == 63
    copy = clone(Ranker(**parameters))
    assert copy.get_params() == parameters
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(ROWS.x), model.predict(ROWS.x))
    assert text(again) == text(model)


def test_lightgbms_names_override_the_defaults():
    by_alias, by_name = fitted(eta=0.3), fitted(learning_rate=0.3)
    assert text(by_alias) == text(by_name) != text(fitted())
    assert text(fitted(random_state=3, colsample_bytree=0.5)) == text(
        fitted(seed=3, feature_fraction=0.5)
    )


@pytest.mark.parametrize(
    "check",
    [
        "check_parameters_default_constructible", "check_no_attributes_set_in_init",
        "check_get_params_invariance", "check_set_params", "check_estimator_repr",
        "check_estimator_cloneable", "check_valid_tag_types", "check_estimator_tags_renamed",
        "check_mixin_order", "check_estimators_unfitted",
    ],
)  # fmt: skip
def test_scikit_learns_checks(check):
    if not hasattr(estimator_checks, check):
        pytest.skip(f"scikit-learn {sklearn.__version__} does not have it")
    getattr(estimator_checks, check)("Ranker", Ranker())


def test_a_model_that_is_not_fitted_says_so():
    for use in (lambda r: r.predict(ROWS.x), lambda r: r.booster_):
        with pytest.raises(NotFittedError):
            use(ranker())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"group": None}, "give either group"),
        ({"group": np.array([3, 4])}, "group adds up to 7 rows"),
        ({"group": np.ones(len(ROWS.x), int), "qid": np.ones(len(ROWS.x))}, "give either group"),
        ({"position": ROWS.position - 1}, "add 1 to positions that begin at 0"),
        ({"position": ROWS.position[:5]}, "position has 5 values for"),
        ({"position": np.ones(len(ROWS.x), int)}, "one document at each position"),
        ({"clicks": ROWS.clicks * 2}, "a click is 0 or 1"),
        ({"clicks": None}, "requires y to be passed"),
        ({"clicks": ROWS.clicks * 0}, "no pairs for joint"),
        ({"query": ROWS.doc}, "different queries"),
        ({"X": ROWS.x[:, 0]}, "expected 2D array"),
        ({"X": np.array([["a"] * 3] * len(ROWS.x))}, "expected numbers"),
        ({"X": pd.DataFrame({"name": ["a"] * len(ROWS.x)})}, "column name has type object"),
    ],
)  # fmt: skip
def test_unusable_arguments_are_one_line(changes, message):
    arguments = {"X": ROWS.x, "clicks": ROWS.clicks, **ROWS.fit_arguments(), **changes}
    with pytest.raises(UserError, match=message) as error:
        ranker().fit(**arguments)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"method": "best"}, "method = 'best'"),
        ({"propensities": None}, "method joint needs propensities"),
        ({"propensities": [1.0, 0.0]}, "above 0"),
        ({"propensities": pa.table({"k": [1]})}, "no column"),
        ({"n_estimators": 0}, "n_estimators = 0"),
        ({"num_leaves": 1}, "num_leaves = 1"),
        ({"boosting_type": "dart"}, "boosting"),
        ({"num_boost_round": 7}, "num_boost_round"),
    ],
)
def test_unusable_parameters_are_one_line(parameters, message):
    with pytest.raises(UserError, match=message) as error:
        fitted(**parameters)
    assert "\n" not in str(error.value)
