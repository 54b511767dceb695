"""The Estimator under Spark Connect: the client has no JVM, the server is a process of its own."""

from __future__ import annotations

import json

import pyspark
import pytest

from tests.support.connect_client import joint, pipeline, scores
from tests.support.connect_server import connect_server, run_client
from tests.support.shown_sessions import NAMES, shown_sessions
from ulr.ml.model import UnbiasedLambdaMARTModel

pytestmark = [
    pytest.mark.all,
    pytest.mark.cluster,
    pytest.mark.skipif(pyspark.__version__ < "4", reason="Spark Connect is supported from 4.0 on"),
]
CORES = 4


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with connect_server(tmp_path_factory.mktemp("connect"), CORES) as url:
        yield url


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("saved")


@pytest.fixture(scope="module")
def result(server, folder):
    """Return what a client got from fit, save, load and transform."""
    return answer_of(run_client(server, "fit", str(folder)))


def answer_of(run):
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def classic(spark):
    return pipeline().fit(shown_sessions(spark))


def test_the_model_has_the_bytes_of_a_classic_session(result, classic):
    assert not result["jvm"]
    assert result["text"] == classic.stages[1].model_text


def test_the_scores_are_those_of_a_classic_session(spark, result, classic):
    expected = scores(classic, shown_sessions(spark))
    assert len(set(expected)) > 10
    assert result["scores"] == expected
    assert result["loaded"] == expected


def test_a_classic_session_loads_what_a_client_saved(spark, result, folder, classic):
    loaded = UnbiasedLambdaMARTModel.load(f"{folder}/model")
    assert loaded.model_text == result["text"]
    assert loaded.getFeaturesCol() == "features"
    assembled = classic.stages[0].transform(shown_sessions(spark)).drop(*NAMES)
    assert scores(loaded, assembled) == result["scores"]


def test_propensities_contributions_and_metrics_are_those_of_a_classic_session(spark, result):
    expected = joint(spark, shown_sessions(spark))
    assert len(expected["why"]) == len(NAMES) + 1
    assert result["joint"] == expected


def test_a_user_error_is_one_line(result):
    errors = result["errors"]
    assert errors["positions"] == "positionCol contains 0; positions begin at 1, the top"
    assert errors["workers"] == (
        f"train.num_workers = 9, but the cluster runs {CORES} tasks at once; add executors or set "
        f"train.num_workers to at most {CORES}"
    )


def test_cancelling_a_fit_leaves_other_queries_of_the_session(server, tmp_path):
    answer = answer_of(run_client(server, "cancel", str(tmp_path)))
    assert answer["interrupted"]
    assert answer["still_running"]
    assert answer["together"] == [1, 1, 1]
    assert answer["other"] == "[5]"
    assert answer["left"] == []
