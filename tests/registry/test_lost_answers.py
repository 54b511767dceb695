"""Answers of a real server that are lost on the way, and writers that run at the same time."""

import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.proxy import FaultProxy
from tests.support.registry_server import promote_settings, submission, tracking_server
from ulr.errors import LockTaken, RegistryUnavailable
from ulr.registry import CHALLENGER, CHAMPION, Registry, lock
from ulr.registry.comparison import log_comparison
from ulr.registry.lock import registry_lock
from ulr.registry.outbox import queued, send, sync
from ulr.registry.promotion import promote
from ulr.warehouse.tables import Warehouse

pytestmark = pytest.mark.all

SETTINGS = promote_settings(min_effective_clicks=0, diagnostics="ignore")
SEND = """
import sys
from tests.support.registry_server import promote_settings, submission
from ulr.registry import Registry
from ulr.registry.outbox import send
from ulr.warehouse.tables import Warehouse
registry = Registry(sys.argv[1], experiment=sys.argv[3], name=sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
print(send(registry, Warehouse(sys.argv[2]), submission("f1")).version)
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with tracking_server(tmp_path_factory.mktemp("server")) as url, FaultProxy(url) as proxy:
        yield url, proxy


class Lab:
    """A registered model and an experiment of its own on the server, reached through the proxy."""

    def __init__(self, url, proxy, name, folder):
        proxy.clear()
        self.proxy, self.name, self.url = proxy, name, url
        self.warehouse = Warehouse(str(folder / "warehouse"))
        self.direct = Registry(url, experiment=name, name=name)

    def registry(self, retries):
        return Registry(self.proxy.url, experiment=self.name, name=self.name, retries=retries,
                        backoff=0)  # fmt: skip

    def assert_one(self, fingerprint="f1"):
        """Check that the training has one version, one finished run and one logged model."""
        client, experiment = self.direct.client, [self.direct.experiment_id()]
        (version,) = self.direct.versions()
        (run,) = client.search_runs(experiment)
        (model,) = client.search_logged_models(experiment)
        assert (run.info.run_id, run.info.status) == (version.run_id, "FINISHED")
        assert version.tags["ulr.fingerprint"] == fingerprint
        assert run.outputs.model_outputs[0].model_id == model.model_id
        uri = f"models:/{self.name}/{version.version}"
        assert self.direct.model_text(uri) == submission(fingerprint).model
        return version


@pytest.fixture
def lab(server, tmp_path, request):
    return Lab(*server, f"lab-{abs(hash(request.node.name))}", tmp_path)


REQUESTS = [
    "experiments/create", "runs/create", "logged-models", "/tags", "outputs", "log-batch",
    "model-versions/create", "registered-models/create", "runs/update", "MLmodel", "model.lgb",
    "model-versions/search", "runs/search",
]  # fmt: skip


@pytest.mark.parametrize("action", ["lose answer", "cut answer"])
@pytest.mark.parametrize("path", REQUESTS)
def test_one_lost_answer_leaves_one_version_and_no_other_run(lab, path, action):
    # The first version of a name is created twice: the first request finds no registered model.
    lab.proxy.add(action, path, nth=2 if path == "model-versions/create" else 1)
    registry = lab.registry(retries=2)
    try:
        send(registry, lab.warehouse, submission("f1"))
    except RegistryUnavailable:  # MLflow does not repeat a request whose answer is incomplete
        assert action == "cut answer"
        sync(registry, lab.warehouse)
    assert lab.proxy.seen(path, action) == 1
    lab.assert_one()
    assert queued(lab.warehouse) == []


@pytest.mark.parametrize("path", ["runs/create", "logged-models", "model-versions/create"])
def test_without_retries_the_model_is_queued_and_sent_once(lab, path):
    lab.direct.register(submission("f0"))  # so that experiment and registered model exist
    lab.direct.client.delete_model_version(lab.name, "1")
    for run in lab.direct.client.search_runs([lab.direct.experiment_id()]):
        lab.direct.client.delete_run(run.info.run_id)
    for model in lab.direct.client.search_logged_models([lab.direct.experiment_id()]):
        lab.direct.client.delete_logged_model(model.model_id)
    lab.proxy.add("lose answer", path)
    with pytest.raises(RegistryUnavailable):
        send(lab.registry(retries=0), lab.warehouse, submission("f1"))
    assert queued(lab.warehouse) == ["f1"]
    ((version,), damaged) = sync(lab.registry(retries=0), lab.warehouse)
    assert (lab.assert_one().version, damaged) == (version.version, [])
    assert queued(lab.warehouse) == []


def test_a_lost_answer_to_an_alias_or_a_deletion_is_repeated(lab):
    lab.proxy.add("lose answer", "model-versions/create", nth=2)
    lab.proxy.add("lose answer", "model-versions/delete")
    lab.proxy.add("lose answer", "registered-models/alias", method="POST")
    decision = promote(lab.registry(retries=2), lab.warehouse, submission("f1"), None, SETTINGS,
                       published_propensities=False)  # fmt: skip
    assert (decision.outcome, decision.version) == ("promoted", 1)
    assert lab.proxy.seen("model-versions/delete", "lose answer") == 1
    version = lab.assert_one()
    for alias in (CHALLENGER, CHAMPION):
        assert lab.direct.version_with_alias(alias).version == version.version


def test_a_version_that_arrives_late_is_removed_and_its_alias_moves(lab):
    first = lab.direct.register(submission("f1"))
    client = lab.direct.client
    stored = client.get_model_version(lab.name, "1")
    client.create_model_version(
        lab.name, stored.source, run_id=first.run_id, tags=dict(first.tags),
        model_id=stored.source.removeprefix("models:/"),
    )  # fmt: skip
    lab.direct.set_alias(CHAMPION, 2)
    assert lab.direct.find("f1").version == 1
    assert send(lab.direct, lab.warehouse, submission("f1")).version == 1
    lab.assert_one()
    assert lab.direct.version_with_alias(CHAMPION).version == 1


def test_a_comparison_with_lost_answers_has_no_run_too_many(lab):
    for nth in (1, 2):
        lab.proxy.add("lose answer", "runs/create", nth=nth)
    rows = [{"ranking": "f1", "value": 0.5}]
    models = [submission("f1")]
    parent = log_comparison(lab.registry(retries=2), lab.warehouse, "one", models, rows)
    runs = lab.direct.client.search_runs([lab.direct.experiment_id()])
    assert lab.proxy.seen("runs/create", "lose answer") == 2
    assert {run.info.status for run in runs} == {"FINISHED"}
    assert len(runs) == 2
    assert log_comparison(lab.direct, lab.warehouse, "one", models, rows) == parent


def test_two_processes_that_send_one_model_at_once_register_it_once(lab, tmp_path):
    command = [sys.executable, "-c", SEND, lab.url, str(tmp_path / "warehouse"), lab.name]
    senders = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]  # fmt: skip
    for sender in senders:
        assert sender.stdout.readline() == "ready\n"
    for sender in senders:
        sender.stdin.write("go\n")
        sender.stdin.flush()
    ended = [sender.communicate(timeout=200) for sender in senders]
    assert [sender.returncode for sender in senders] == [0, 0], ended
    assert [out for out, _ in ended] == ["1\n", "1\n"]
    lab.assert_one()


def test_writers_of_two_warehouses_register_a_model_once(lab, tmp_path):
    """They share no lock; both have searched before either registers."""
    searched = threading.Barrier(2, timeout=60)

    class Slow(Registry):
        def log_run(self, submission, tags, **options):
            searched.wait()
            with writing:  # MLflow's active run is global in a process
                return super().log_run(submission, tags, **options)

    writing = threading.Lock()
    registries = [Slow(lab.url, experiment=lab.name, name=lab.name) for _ in range(2)]
    lab.direct.experiment_id()
    with ThreadPoolExecutor(2) as pool:
        sent = [pool.submit(r.register, submission("f1")) for r in registries]
        versions = {one.result().version for one in sent}
    kept = lab.assert_one()
    assert kept.version in versions


def test_a_writer_waits_for_another_and_then_gives_up_with_its_name(lab, monkeypatch):
    with registry_lock(lab.warehouse):
        monkeypatch.setattr(lock, "WAIT_S", 0.0)
        with pytest.raises(LockTaken, match="the model registry is being written by process"):
            sync(lab.direct, lab.warehouse)
    monkeypatch.setattr(lock, "WAIT_S", 60.0)
    held, waiting = registry_lock(lab.warehouse), threading.Event()
    held.__enter__()
    with ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(lock.time, "sleep", lambda _: waiting.set())
        sent = pool.submit(sync, lab.direct, lab.warehouse)
        assert waiting.wait(60)
        held.__exit__(None, None, None)
        assert sent.result(60) == ([], [])
