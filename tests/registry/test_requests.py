"""The number of HTTP requests of a night's registration, counted against a real server."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
import requests

from tests.support.registry_server import evaluation, promote_settings, submission, tracking_server
from ulr.registry import Registry
from ulr.registry.promotion import promote
from ulr.warehouse.tables import Warehouse

pytestmark = pytest.mark.all

METRICS = 60
SETTINGS = promote_settings(min_effective_clicks=0, diagnostics="ignore")


@pytest.fixture
def sent(monkeypatch):
    """The method and path of every request, in order."""
    log = []
    send = requests.Session.request

    def record(session, method, url, **options):
        log.append((method, url.split("?")[0].partition("/api/")[2]))
        return send(session, method, url, **options)

    monkeypatch.setattr(requests.Session, "request", record)
    return log


def night(fingerprint, seed):
    """A submission with as many metrics, files and iterations as those of a night."""
    model = submission(fingerprint, seed)
    metrics = {f"metric_{i}": float(i) for i in range(METRICS)}
    files = dict.fromkeys((f"table_{i}.json" for i in range(6)), "[]")
    dataset = {"name": "pairs", "digest": fingerprint, "source_type": "ulr", "source": "{}"}
    return replace(
        model, metrics=metrics, files=model.files | files, dataset=dataset,
        history={"pair_loss": [0.5] * 300},
    )  # fmt: skip


def test_a_night_needs_few_requests_however_many_metrics_it_has(tmp_path, sent):
    """MLflow's `log_model` requests the history of every metric that the run has by then."""
    warehouse = Warehouse(str(tmp_path / "warehouse"))
    with tracking_server(tmp_path) as url:
        registry = Registry(url, experiment="tests", name="ranker")
        for number, fingerprint in enumerate(("first", "second")):
            sent.clear()
            decision = promote(
                registry, warehouse, night(fingerprint, number), evaluation(1.0), SETTINGS,
                published_propensities=False,
            )  # fmt: skip
            assert decision.outcome == "promoted"
        counted = Counter(path.partition("mlflow-artifacts/")[1] or path for _, path in sent)
        artifacts = counted.pop("mlflow-artifacts/")
        run_id = registry.version(2).run_id
        run = registry.client.get_run(run_id)
        model = registry.client.get_logged_model(run.outputs.model_outputs[0].model_id)
        history = registry.client.get_metric_history(run_id, "validation_pair_loss")
    assert not any("get-history" in path for path in counted)
    assert counted.total() <= 30, counted
    assert artifacts <= 2 * len(night("", 0).files) + 16, artifacts
    linked = {metric.key: metric.value for metric in model.metrics}
    assert linked.items() >= {f"metric_{i}": float(i) for i in range(METRICS)}.items()
    assert run.data.metrics.items() >= linked.items()
    assert model.params == run.data.params
    assert model.tags["mlflow.modelVersions"] == '[{"name": "ranker", "version": "2"}]'
    assert len(history) == 300
