"""The registry in a real SQLite file, and on a real server over HTTP."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import lightgbm as lgb
import numpy as np
import pandas as pd
import pytest
from mlflow import MlflowClient

from tests.support.registry_server import (
    WIDTH,
    comparison,
    free_port,
    local_registry,
    submission,
    tracking_server,
)
from ulr.config.load import flat
from ulr.errors import RegistryUnavailable, UserError
from ulr.models.export.formats import export_model
from ulr.models.export.ulr_scorer import Float32Scorer
from ulr.models.text import finished_model
from ulr.registry import CHALLENGER, CHAMPION, Registry
from ulr.registry.comparison import log_comparison
from ulr.registry.outbox import queue_if_unavailable, queued, sync
from ulr.registry.outbox_entry import read_entry
from ulr.warehouse.tables import Warehouse

LOADER = """
import sys
sys.modules["ulr"] = None  # importing it fails
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
    return registry, registry.register(submission())


def test_a_training_is_registered_once(local):
    registry, first = local
    assert (first.version, first.new) == (1, True)
    again = registry.register(submission())
    assert (again.version, again.new, again.run_id) == (1, False, first.run_id)
    assert len(registry.versions()) == 1


def test_a_damaged_model_of_the_registry_is_one_clear_error(tmp_path):
    registry = registry_at(tmp_path / "mlflow")
    version = registry.register(submission("damaged"))
    uri = f"models:/ranker/{version.version}"
    (file,) = (tmp_path / "mlflow").rglob("model.lgb")
    whole = file.read_text()
    assert registry.model_text(uri) == whole
    registry.client.delete_model_version_tag("ranker", "1", "ulr.model_sha256")
    for content in (whole[:900], whole.replace("left_child=", "left_child=9999 ", 1)):
        file.write_text(content)  # LightGBM ends the process by a signal
        with pytest.raises(UserError, match="is not a valid LightGBM text model"):
            registry.model_text(uri)
    file.write_bytes(b"tree\n\xff")
    with pytest.raises(UserError, match="is not UTF-8"):
        registry.model_text(uri)


def test_the_run_has_settings_metrics_the_history_and_the_files(local):
    registry, version = local
    run = registry.client.get_run(version.run_id)
    assert run.data.params["train.num_iterations"] == "3"
    assert run.data.metrics["ndcg_at_10_lower"] == 0.4
    assert "none" not in run.data.metrics
    history = registry.client.get_metric_history(version.run_id, "validation_pair_loss")
    assert [(m.step, m.value) for m in history] == [(1, 0.7), (2, 0.6), (3, 0.65)]
    names = {f.path for f in registry.client.list_artifacts(version.run_id)}
    assert {"biases.json", "propensities.json", "propensities.svg"} <= names
    assert {"importance.json", "importance.svg"} <= names
    assert version.tags["ulr.window"] == "2026-01-01..2026-01-03"


def test_the_importance_of_the_features_is_a_table_of_mlflow(local):
    registry, version = local
    with registry.connected():
        table = registry.client.load_table(
            registry.experiment_id(), "importance.json", [version.run_id]
        )
    assert list(table["feature"]) == ["feature 1", "feature 2", "feature 3"]
    assert list(table["contribution"]) == pytest.approx([0.5 / n for n in (1, 2, 3)])
    assert {"gain", "split", "direction"} <= set(table.columns)


@pytest.mark.all
def test_the_model_loads_without_this_package_and_contains_its_tables(local, tmp_path):
    import mlflow

    registry, version = local
    uri = f"models:/ranker/{version.version}"
    done = subprocess.run(
        [sys.executable, "-c", LOADER, registry.uri, uri], capture_output=True, text=True,
        cwd=tmp_path, timeout=200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    rows = np.array([[0.5, 1, 2, 3], [-1, 0, 0, 0]], np.float32)
    want = lgb.Booster(model_str=submission().model).predict(rows)
    np.testing.assert_allclose([float(v) for v in done.stdout.split()], want)
    folder = mlflow.artifacts.download_artifacts(
        uri, dst_path=str(tmp_path), tracking_uri=registry.uri
    )
    files = {p.name for p in tmp_path.rglob("*") if p.is_file()}
    assert {"biases.json", "propensities.json", "input_example.json"} <= files, folder


ROWS = np.array([[0.5, 1, 2, 3], [-1, 0, np.nan, 0]])
NAMES = ["bm25", "price", "age", "clicks"]


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """Models with and without feature names, loaded by MLflow's pyfunc."""
    import mlflow

    registry = local_registry(tmp_path_factory.mktemp("signatures"))
    named = submission("named")
    header = f"feature_names={' '.join(f'Column_{k}' for k in range(WIDTH))}"
    text = named.model.replace(header, f"feature_names={' '.join(NAMES)}")
    registry.register(replace(named, model=text))
    registry.register(submission("unnamed"))
    with registry.connected():
        yield [mlflow.pyfunc.load_model(f"models:/ranker/{n}") for n in (1, 2)]


def scores_of(rows):
    return lgb.Booster(model_str=submission().model).predict(rows.astype(np.float32))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_frame_is_ordered_by_name_and_cast_to_float32(models, dtype):
    named, _ = models
    frame = pd.DataFrame(ROWS.astype(dtype), columns=NAMES)
    for columns in (NAMES, NAMES[::-1]):
        np.testing.assert_array_equal(named.predict(frame[columns]), scores_of(ROWS))
    with pytest.raises(Exception, match=r"missing inputs.*age"):
        named.predict(frame.drop(columns="age"))
    with pytest.raises(Exception, match=r"missing inputs.*bm25"):
        named.predict(frame.to_numpy())  # the order of its columns is not known


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_a_model_without_names_takes_arrays_and_frames_of_its_width(models, dtype):
    _, unnamed = models
    rows = ROWS.astype(dtype)
    for given in (rows, pd.DataFrame(rows)):
        np.testing.assert_array_equal(unnamed.predict(given), scores_of(ROWS))
    with pytest.raises(Exception, match="4 inputs"):
        unnamed.predict(rows[:, :3])


def test_a_float64_value_is_cast_before_it_is_compared(models):
    """0.7 is above the float32 nearest to it, so that float64 trees would send it to the right."""
    x = np.repeat(np.float32([0.7, np.nextafter(np.float32(0.7), np.float32(1))]), 100)[:, None]
    booster = lgb.train({"verbose": -1, "min_data_in_bin": 1}, lgb.Dataset(x, x[:, 0] > 0.7), 1)
    text = finished_model(booster.model_to_string())
    wide = np.array([[0.7]])
    scorer = Float32Scorer(lgb.Booster(model_str=text))
    np.testing.assert_array_equal(scorer.predict(wide), booster.predict(x[:1]))
    assert lgb.Booster(model_str=text).predict(wide) != booster.predict(x[:1])


def test_the_run_has_the_dataset_it_was_trained_on(tmp_path):
    registry = local_registry(tmp_path)
    dataset = {"name": "pairs joint", "digest": "abc", "source_type": "ulr",
               "source": '{"uri": "pairs"}', "profile": '{"rows": 5}'}  # fmt: skip
    version = registry.register(replace(submission(), dataset=dataset))
    (given,) = registry.client.get_run(version.run_id).inputs.dataset_inputs
    assert vars(given.dataset) | {} == {f"_{k}": v for k, v in dataset.items()} | {"_schema": None}
    assert [(tag.key, tag.value) for tag in given.tags] == [("mlflow.data.context", "training")]


def test_exported_models_are_attached_to_the_run_and_the_version(tmp_path):
    registry = local_registry(tmp_path)
    named = submission()
    header = f"feature_names={' '.join(f'Column_{k}' for k in range(WIDTH))}"
    text = named.model.replace(header, f"feature_names={' '.join(NAMES)}")
    version = registry.register(
        replace(named, model=text, exports=["solr", "vespa"], engine_name="ranker-2026-01-03")
    )
    files = registry.client.list_artifacts(version.run_id, "export")
    assert {f.path for f in files} == {"export/solr.json", "export/vespa.json"}
    import mlflow

    with registry.connected():
        path = mlflow.artifacts.download_artifacts("models:/ranker/1/extra_files/solr.json")
    assert Path(path).read_bytes() == export_model(text, "solr", "ranker-2026-01-03")


def test_the_registry_may_be_apart_from_the_runs(tmp_path):
    models = f"sqlite:///{tmp_path}/models.db"
    registry = registry_at(tmp_path / "runs", registry_uri=models)
    version = registry.register(submission())
    registry.set_alias(CHAMPION, version.version)
    assert registry.model_text(f"models:/ranker@{CHAMPION}") == submission().model
    assert registry.find("f1").version == 1
    assert not registry.register(submission()).new
    assert [m.name for m in MlflowClient(registry_uri=models).search_registered_models()] == [
        "ranker"
    ]
    assert MlflowClient(registry.uri).search_registered_models() == []
    assert registry.client.get_run(version.run_id).info.status == "FINISHED"


def test_versions_are_searched_by_name_only(tmp_path, monkeypatch):
    """Unity Catalog has no other filter."""
    asked = []
    search = MlflowClient.search_model_versions

    def record(client, filter_string=None, **options):
        asked.append(filter_string)
        return search(client, filter_string, **options)

    monkeypatch.setattr(MlflowClient, "search_model_versions", record)
    registry = local_registry(tmp_path)
    for fingerprint in ("f1", "f2"):
        registry.register(submission(fingerprint))
    assert [v.version for v in registry.versions()] == [2, 1]
    assert (registry.find("f2").version, registry.find("absent")) == (2, None)
    assert set(asked) == {"name='ranker'"}


def test_an_alias_moves_and_tags_are_on_the_version_and_its_run(local):
    registry, version = local
    assert registry.version_with_alias("absent") is None
    registry.set_alias(CHALLENGER, version.version)
    assert registry.version_with_alias(CHALLENGER).version == version.version
    registry.tag_version(version, {"verdict": "kept"}, {"lead": 0.25})
    assert registry.version(version.version).tags["verdict"] == "kept"
    run = registry.client.get_run(version.run_id).data
    assert (run.tags["verdict"], run.metrics["lead"]) == ("kept", 0.25)


def test_the_run_of_an_interrupted_registration_is_replaced(tmp_path):
    registry = registry_at(tmp_path)
    client = registry.client
    left = client.create_run(registry.experiment_id(), tags={"ulr.fingerprint": "f1"})
    version = registry.register(submission())
    runs = client.search_runs([registry.experiment_id()])
    assert [r.info.run_id for r in runs] == [version.run_id]
    assert left.info.run_id != version.run_id


def test_a_comparison_is_one_run_with_a_child_per_model_and_registers_nothing(tmp_path):
    registry, warehouse = registry_at(tmp_path), Warehouse(str(tmp_path / "warehouse"))
    models = [submission("f1"), submission("f2", seed=2)]
    rows = [{"ranking": "f1", "value": 0.5}, {"ranking": "f2", "value": 0.25}]
    parent = log_comparison(registry, warehouse, "two", models, rows)
    assert log_comparison(registry, warehouse, "two", models, rows) == parent
    table = comparison(registry, parent)
    assert table[["ranking", "value"]].to_dict("records") == rows
    runs = registry.client.search_runs([registry.experiment_id()])
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent]
    assert (len(runs), len(children)) == (3, 2)
    assert registry.versions() == []
    assert {c.data.tags["ulr.compared.fingerprint"] for c in children} == {"f1", "f2"}
    assert registry.register(models[0]).new  # the child is not taken for an interrupted run
    assert len(registry.client.search_runs([registry.experiment_id()])) == 4


def test_a_missing_model_is_a_clear_error(local):
    registry, _ = local
    with pytest.raises(UserError, match="no model models:/ranker@absent"):
        registry.model_text("models:/ranker@absent")


def test_the_environment_is_left_as_it_was(local, monkeypatch):
    registry, _ = local
    for uri in ("http://other", None):
        if uri:
            monkeypatch.setenv("MLFLOW_TRACKING_URI", uri)
        else:
            monkeypatch.delenv("MLFLOW_TRACKING_URI")
        registry.version_with_alias(CHAMPION)
        assert os.environ.get("MLFLOW_TRACKING_URI") == uri


def test_settings_are_flattened_and_an_empty_section_stays():
    assert flat({"a": {"b": 1, "c": {"d": [2]}}, "e": {}}) == {
        "a.b": "1",
        "a.c.d": "[2]",
        "e": "{}",
    }


@pytest.mark.all
def test_over_http_a_model_is_queued_until_the_server_is_back(tmp_path, capsys):
    port = free_port()
    registry = registry_at(f"http://127.0.0.1:{port}", retries=1, backoff=0)
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    with (
        pytest.raises(RegistryUnavailable, match="ulr registry sync"),
        queue_if_unavailable(warehouse, submission()),
    ):
        registry.register(submission())
    assert queued(warehouse) == ["f1"]
    content = warehouse.storage.read_bytes("outbox", "f1.json")
    assert read_entry(content, "f1") == submission()
    with pytest.raises(RegistryUnavailable):
        sync(registry, warehouse)
    assert queued(warehouse) == ["f1"]
    with tracking_server(tmp_path, port):
        ((version,), damaged) = sync(registry, warehouse)
        assert (queued(warehouse), damaged) == ([], [])
        assert sync(registry, warehouse) == ([], [])
        assert not registry.register(submission()).new
        registry.set_alias(CHAMPION, version.version)
        text = registry.model_text("models:/ranker@champion")
        rows = [{"ranking": name, "value": 0.5} for name in ("f2", "f3")]
        models = [submission(name, seed) for seed, name in enumerate(("f2", "f3"))]
        parent = log_comparison(registry, warehouse, "over HTTP", models, rows)
        children = registry.client.search_runs(
            [registry.experiment_id()], f"tags.mlflow.parentRunId = '{parent}'"
        )
        assert [r.data.metrics["validation_pair_loss"] for r in children] == [0.65, 0.65]
        assert capsys.readouterr().out == ""  # stdout may have to be one JSON document
        table = comparison(registry, parent)
        assert table["ranking"].tolist() == ["f2", "f3"]
        assert [v.version for v in registry.versions()] == [version.version]
    rows = np.eye(WIDTH, dtype=np.float32)
    np.testing.assert_array_equal(
        lgb.Booster(model_str=text).predict(rows),
        lgb.Booster(model_str=submission().model).predict(rows),
    )
