"""Every method of the Estimator: the weights of a plain loop, and the bytes of `Ranker`."""

from __future__ import annotations

import warnings
from collections import defaultdict

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from tests.support.oracle_pairs import session_weights
from tests.support.sessions import session_rows
from ulr import Ranker
from ulr.errors import UserError
from ulr.ml.estimator import UnbiasedLambdaMART
from ulr.ml.fit_data import write_fit_data

ROWS = session_rows(queries=40)
LIGHTGBM = {"num_leaves": 4, "min_sum_hessian_in_leaf": 0.1, "num_threads": 1}
COLUMNS = {"qidCol": "session", "positionCol": "position", "labelCol": "click",
           "queryCol": "query", "docCol": "doc"}  # fmt: skip
NEED_THETA = ("robust", "robust+", "ips-all", "pns", "prs", "joint")


@pytest.fixture(scope="module")
def shown(spark):
    """Return the sessions as a DataFrame in random order."""
    frame = pd.DataFrame(
        {
            "session": np.repeat(np.arange(ROWS.group.size), ROWS.group).astype(str),
            "query": ROWS.query.to_pylist(),
            "doc": ROWS.doc.to_pylist(),
            "position": ROWS.position,
            "click": ROWS.clicks.astype(float),
            "features": ROWS.x.astype(float).tolist(),
        }
    )
    frame = frame.assign(half=frame.position / 2, one=1, none=0)
    return spark.createDataFrame(frame.sample(frac=1, random_state=2)).cache()


def estimator(**more):
    settings = {"num_iterations": 6, "lightgbm": LIGHTGBM, "early_stopping_round": 0}
    return UnbiasedLambdaMART(**{**COLUMNS, **settings, **more})


def ranker_text(method, *, query=True, **more):
    """Return the model of `Ranker` on the same sessions."""
    settings = {"n_estimators": 6, "early_stopping_rounds": 0, **more}
    propensities = ROWS.psi if method in (*NEED_THETA, "auto") else None
    model = Ranker(
        method, propensities, num_leaves=4, min_child_weight=0.1, n_jobs=1, **settings
    )  # fmt: skip
    given = ROWS.fit_arguments()
    if not query:
        given["query"] = np.repeat(np.arange(ROWS.group.size), ROWS.group).astype(str)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return model.fit(ROWS.x, ROWS.clicks, **given).booster_.model_to_string()


@pytest.mark.parametrize("method", [*NEED_THETA, "naive", "unbiased-lambdamart", "dla", "labels"])
def test_a_model_has_the_bytes_of_the_notebook_api(shown, method):
    propensities = {"propensities": ROWS.psi} if method in NEED_THETA else {}
    model = estimator(method=method, num_workers=2, **propensities).fit(shown)
    assert model.model_text == ranker_text(method)


def test_auto_chooses_what_the_notebook_api_chooses(shown):
    settings = {"num_iterations": 12, "early_stopping_round": 4, "validation_fraction": 0.4}
    model = estimator(propensities=ROWS.psi, **settings).fit(shown)
    settings = {"n_estimators": 12, "early_stopping_rounds": 4, "validation_fraction": 0.4}
    assert model.model_text == ranker_text("auto", **settings)
    assert model.choice is not None
    assert model.history


def test_without_queries_every_list_is_a_query(shown):
    model = UnbiasedLambdaMART(
        qidCol="session", positionCol="position", labelCol="click", docCol="doc",
        num_iterations=6, lightgbm=LIGHTGBM, method="pns", propensities=ROWS.psi,
        early_stopping_round=0,
    ).fit(shown)  # fmt: skip
    assert model.model_text == ranker_text("pns", query=False)


@pytest.mark.parametrize("method", [*NEED_THETA, "naive"])
def test_weights_are_those_of_a_plain_loop(shown, tmp_path, method):
    propensities = {"propensities": ROWS.psi} if method in NEED_THETA else {}
    free = {"co_click_variance": float("inf"), "prs_clip": float("inf")}
    own = estimator(method=method, **free, **propensities)
    source, _ = write_fit_data(own, shown, own._settings(), str(tmp_path))
    tables = [pq.read_table(file, filesystem=None) for file in source.files]
    written = defaultdict(float)
    for row in (row for table in tables for row in table.to_pylist()):
        for pair in pairs_of(row):
            written[pair[:3]] += pair[3]
    expected = expected_weights(method)
    assert len(expected) > 500
    assert set(written) >= {pair for pair, weight in expected.items() if abs(weight) > 1e-9}
    for pair, weight in written.items():
        assert weight == pytest.approx(expected[pair], rel=1e-5, abs=1e-5)


def pairs_of(row):
    """Yield query, preferred and other document, and weight, of a row of pairs."""
    first_row = first_pair = 0
    for size, count in zip(row["group_sizes"], row["pair_counts"], strict=True):
        docs = [row["doc_ids"][r] for r in row["doc_rows"][first_row : first_row + size]]
        for p in range(first_pair, first_pair + count):
            i, j = docs[row["pair_i"][p]], docs[row["pair_j"][p]]
            yield row["query_id"], i, j, row["u_ij"][p]
            yield row["query_id"], j, i, row["u_ji"][p]
        first_row, first_pair = first_row + size, first_pair + count


def expected_weights(method):
    """Return the sums over sessions by a loop over sessions and pairs."""
    k, v = np.triu_indices(6)
    psi = np.zeros((6, 6))
    psi[k, v] = psi[v, k] = ROWS.psi["psi"].to_numpy()
    query, doc = ROWS.query.to_pylist(), ROWS.doc.to_pylist()
    sums = defaultdict(float)
    for start in range(0, ROWS.clicks.size, 6):
        clicks = ROWS.clicks[start : start + 6].tolist()
        u = session_weights(clicks, np.diag(psi), psi, method)
        for i in range(6):
            for j in range(6):
                if clicks[i] or clicks[j]:
                    sums[query[start], doc[start + i], doc[start + j]] += u[i][j]
    return sums


def test_the_parameter_takes_what_the_notebook_api_takes(spark, shown, tmp_path):
    theta = np.array([1, 0.7, 0.5, 0.4, 0.3, 0.25])
    path = tmp_path / "theta.json"
    path.write_text(f"{theta.tolist()}")
    frame = pd.DataFrame({"position": np.arange(1, 7), "theta": theta})
    by_position = {k + 1: t for k, t in enumerate(theta)}
    forms = [theta.tolist(), theta, by_position, {None: theta}, {"theta": theta, "mobile": theta},
             frame, spark.createDataFrame(frame), str(path)]  # fmt: skip
    texts = {estimator(method="pns", propensities=own).fit(shown).model_text for own in forms}
    assert len(texts) == 1


def test_segments_have_their_own_propensities(shown):
    curves = {"theta": [1.0] * 6, "steep": [0.5**k for k in range(6)]}
    steep = shown.selectExpr("*", "'steep' as kind")
    texts = {
        "segment": estimator(method="prs", propensities=curves, segmentCol="kind").fit(steep),
        "steep": estimator(method="prs", propensities=curves["steep"]).fit(shown),
        "all": estimator(method="prs", propensities=curves).fit(steep),
    }
    assert texts["segment"].model_text == texts["steep"].model_text
    assert texts["segment"].model_text != texts["all"].model_text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"method": "joint"}, "method joint needs propensities; give theta by position"),
        ({"method": "jiont", "propensities": [1.0, 0.5]}, "method = 'jiont'"),
        ({"weightCol": "click", "method": "pns"}, "weightCol is set, and method pns"),
        ({"num_iterations": 0}, "num_iterations = 0"),
        ({"qidCol": "sesion"}, r"qidCol = sesion: .* no column sesion \(did you mean session\?\)"),
        ({"labelCol": "doc"}, "labelCol = doc has type string; expected numbers"),
        ({"featuresCol": "click"}, "featuresCol = click has type double; expected an array"),
        ({"labelCol": "position"}, "labelCol contains [2-6]; a click is 0 or 1"),
        ({"positionCol": "half"}, "positionCol has [0-9,]+ null or non-finite values"),
        ({"positionCol": "one"}, "several rows at position 1; a list shows one document at each"),
        ({"labelCol": "none"}, "no pairs for unbiased-lambdamart: none of the 480 sessions has"),
        ({"validationIndicatorCol": "none"}, "no rows to train on, or none to validate on"),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(shown, changes, message):
    with pytest.raises(UserError, match=message) as raised:
        estimator(**changes).fit(shown)
    assert "\n" not in str(raised.value)
