"""`Ranker` in several threads of one process.

LightGBM's number of threads is one variable of the process, and a training whose number is changed
by another thread ends the process by a signal. Trainings therefore run in processes of their own;
each case here too, because a failure is a signal.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LIMIT_S = 300

PROGRAM = """
import sys
import threading

import joblib
import numpy as np
from sklearn.model_selection import GridSearchCV, GroupKFold

from tests.support.sessions import session_rows
from ulr import Ranker

ROUNDS = 4
ROWS = session_rows(queries=300, sessions=5)
QID = np.repeat(np.arange(ROWS.group.size), ROWS.group)
THETA = [1 / position for position in range(1, 7)]


def ranker(**more):
    return Ranker("joint", THETA, n_estimators=30, num_leaves=15, min_child_weight=0.1,
                  early_stopping_rounds=0, **more)


def fitted(**more):
    return ranker(**more).fit(ROWS.x, ROWS.clicks, qid=QID, position=ROWS.position)


def text(model):
    return model.booster_.model_to_string()


def in_threads(*jobs):
    alone = text(fitted())
    texts = []

    def run(n_jobs):
        texts.extend(text(fitted(n_jobs=n_jobs)) for _ in range(ROUNDS))

    threads = [threading.Thread(target=run, args=[n_jobs]) for n_jobs in jobs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert texts == [alone] * ROUNDS * len(jobs)


def beside_predictions():
    model = fitted(n_jobs=1)
    scores = model.predict(ROWS.x)
    model.set_params(n_jobs=4)
    stopped, equal = threading.Event(), []

    def predict():
        while not stopped.is_set():
            equal.append((model.predict(ROWS.x) == scores).all())

    thread = threading.Thread(target=predict)
    thread.start()
    texts = [text(fitted(n_jobs=1)) for _ in range(ROUNDS)]
    stopped.set()
    thread.join()
    assert texts == [text(model)] * ROUNDS
    assert equal
    assert all(equal)


def grid_search():
    def score(model, x, clicks):
        return float(np.corrcoef(model.predict(x), clicks)[0, 1])

    search = GridSearchCV(ranker(), {"num_leaves": [3, 7, 15, 31]}, scoring=score,
                          cv=GroupKFold(3), n_jobs=2, error_score="raise")
    with joblib.parallel_backend("threading"):
        search.fit(ROWS.x, ROWS.clicks, groups=ROWS.query.to_pylist(), qid=QID,
                   position=ROWS.position)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


eval(sys.argv[1])
"""


@pytest.mark.parametrize(
    "call",
    [
        "in_threads(1, 4)",
        "beside_predictions()",
        pytest.param("in_threads(None, None)", marks=pytest.mark.all),
        pytest.param("in_threads(4, 4)", marks=pytest.mark.all),
        pytest.param("grid_search()", marks=pytest.mark.all),
    ],
)
def test_threads_of_one_process_train_and_predict(call):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, call], cwd=ROOT, timeout=LIMIT_S, check=False,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
