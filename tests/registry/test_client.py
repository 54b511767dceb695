"""The registry on a real SQLite file, and against a real server over HTTP."""

import os
import subprocess
import sys

import lightgbm as lgb
import numpy as np
import pytest

from tests.support.registry_server import WIDTH, comparison, free_port, tracking_server, training
from ulr.config.load import flat
from ulr.errors import RegistryUnavailable, UserError
from ulr.registry import CHALLENGER, CHAMPION, Registry
from ulr.registry.outbox import queue_if_unavailable, sync, waiting
from ulr.registry.submission import read_submission
from ulr.warehouse.tables import Warehouse

LOADER = """
import sys
sys.modules["ulr"] = None  # whoever imports it fails
import mlflow, mlflow.lightgbm, mlflow.pyfunc, numpy as np
mlflow.set_tracking_uri(sys.argv[1])
rows = np.array([[0.5, 1, 2, 3], [-1, 0, 0, 0]], np.float32)
one = mlflow.pyfunc.load_model(sys.argv[2]).predict(rows)
two = mlflow.lightgbm.load_model(sys.argv[2]).predict(rows)
assert (one == two).all()
print(*one)
"""


def registry_at(uri, **options):
    return Registry(str(uri), experiment="tests", name="ranker", **options)


@pytest.fixture(scope="module")
def local(tmp_path_factory):
    registry = registry_at(tmp_path_factory.mktemp("mlflow"))
    return registry, registry.send(training())


def test_a_training_is_registered_once(local):
    registry, first = local
    assert (first.version, first.new) == (1, True)
    again = registry.send(training())
    assert (again.version, again.new, again.run_id) == (1, False, first.run_id)
    assert len(registry.versions()) == 1


def test_the_run_has_settings_metrics_every_iteration_and_the_files(local):
    registry, sent = local
    run = registry.client.get_run(sent.run_id)
    assert run.data.params["train.num_iterations"] == "3"
    assert run.data.metrics["ndcg_at_10_lower"] == 0.4
    assert "none" not in run.data.metrics
    history = registry.client.get_metric_history(sent.run_id, "validation_pair_loss")
    assert [(m.step, m.value) for m in history] == [(1, 0.7), (2, 0.6), (3, 0.65)]
    names = {f.path for f in registry.client.list_artifacts(sent.run_id)}
    assert {"biases.json", "propensities.json", "propensities.svg"} <= names
    assert sent.tags["ulr.window"] == "2026-01-01..2026-01-03"


def test_the_model_loads_without_this_package_and_carries_its_tables(local, tmp_path):
    import mlflow

    registry, sent = local
    uri = f"models:/ranker/{sent.version}"
    done = subprocess.run(
        [sys.executable, "-c", LOADER, registry.uri, uri], capture_output=True, text=True,
        cwd=tmp_path, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = np.array([[0.5, 1, 2, 3], [-1, 0, 0, 0]], np.float32)
    want = lgb.Booster(model_str=training().model).predict(rows)
    np.testing.assert_allclose([float(v) for v in done.stdout.split()], want)
    folder = mlflow.artifacts.download_artifacts(
        uri, dst_path=str(tmp_path), tracking_uri=registry.uri
    )
    found = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert {"biases.json", "propensities.json", "input_example.json"} <= found, folder


def test_the_signature_knows_the_number_of_features(local):
    import mlflow

    registry, _ = local
    with registry._reaching():
        signature = mlflow.models.get_model_info("models:/ranker/1").signature
    assert signature.inputs.inputs[0].shape == (-1, WIDTH)


def test_aliases_move_and_who_has_none_is_none(local):
    registry, sent = local
    assert registry.holder("nobody") is None
    registry.give(CHALLENGER, sent.version)
    assert registry.holder(CHALLENGER).version == sent.version
    registry.note(sent, {"verdict": "kept"}, {"lead": 0.25})
    assert registry.version(sent.version).tags["verdict"] == "kept"
    run = registry.client.get_run(sent.run_id).data
    assert (run.tags["verdict"], run.metrics["lead"]) == ("kept", 0.25)


def test_an_interrupted_registration_leaves_nothing_behind(tmp_path):
    registry = registry_at(tmp_path)
    client = registry.client
    left = client.create_run(registry.experiment_id(), tags={"ulr.fingerprint": "f1"})
    sent = registry.send(training())
    runs = client.search_runs([registry.experiment_id()])
    assert [r.info.run_id for r in runs] == [sent.run_id]
    assert left.info.run_id != sent.run_id


def test_a_comparison_is_one_run_with_a_child_for_each_and_registers_nothing(tmp_path):
    registry = registry_at(tmp_path)
    trainings = [training("f1"), training("f2", seed=2)]
    found = [{"ranking": "f1", "value": 0.5}, {"ranking": "f2", "value": 0.25}]
    parent = registry.send_comparison("two", trainings, found)
    assert registry.send_comparison("two", trainings, found) == parent
    table = comparison(registry, parent)
    assert table[["ranking", "value"]].to_dict("records") == found
    runs = registry.client.search_runs([registry.experiment_id()])
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent]
    assert (len(runs), len(children)) == (3, 2)
    assert registry.versions() == []
    assert registry.send(trainings[0]).new  # and does not take the child for an unfinished run
    assert len(registry.client.search_runs([registry.experiment_id()])) == 4


def test_a_model_that_is_not_there_is_one_clear_error(local):
    registry, _ = local
    with pytest.raises(UserError, match="no model models:/ranker@nobody"):
        registry.model_text("models:/ranker@nobody")


def test_the_environment_is_left_as_it_was(local, monkeypatch):
    registry, _ = local
    for uri in ("http://elsewhere", None):
        if uri:
            monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        else:
            monkeypatch.delenv("MLFLOW_TRACKING_URI")
        registry.holder(CHAMPION)
        assert os.environ.get("MLFLOW_TRACKING_URI") == uri


def test_a_submission_survives_the_outbox():
    sent = training()
    assert read_submission(sent.to_json()) == sent


def test_settings_are_flat_and_an_empty_section_stays():
    assert flat({"a": {"b": 1, "c": {"d": [2]}}, "e": {}}) == {
        "a.b": "1",
        "a.c.d": "[2]",
        "e": "{}",
    }


def test_over_http_a_model_waits_for_its_server_and_is_not_lost(tmp_path, capsys):
    port = free_port()
    registry = registry_at(f"http://127.0.0.1:{port}", retries=1, backoff=0)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    with (
        pytest.raises(RegistryUnavailable, match="ulr registry sync"),
        queue_if_unavailable(warehouse, training()),
    ):
        registry.send(training())
    assert waiting(warehouse) == ["f1"]
    with pytest.raises(RegistryUnavailable):
        sync(registry, warehouse)
    assert waiting(warehouse) == ["f1"]
    with tracking_server(tmp_path, port):
        (sent,) = sync(registry, warehouse)
        assert waiting(warehouse) == []
        assert sync(registry, warehouse) == []
        assert not registry.send(training()).new
        registry.give(CHAMPION, sent.version)
        text = registry.model_text("models:/ranker@champion")
        found = [{"ranking": name, "value": 0.5} for name in ("f2", "f3")]
        trainings = [training(name, seed) for seed, name in enumerate(("f2", "f3"))]
        parent = registry.send_comparison("over HTTP", trainings, found)
        children = registry.client.search_runs(
            [registry.experiment_id()], f"tags.mlflow.parentRunId = '{parent}'"
        )
        assert [r.data.metrics["validation_pair_loss"] for r in children] == [0.65, 0.65]
        assert capsys.readouterr().out == ""  # which may have to be one JSON document
        table = comparison(registry, parent)
        assert table["ranking"].tolist() == ["f2", "f3"]
        assert [v.version for v in registry.versions()] == [sent.version]
    rows = np.eye(WIDTH, dtype=np.float32)
    np.testing.assert_array_equal(
        lgb.Booster(model_str=text).predict(rows),
        lgb.Booster(model_str=training().model).predict(rows),
    )
