"""The live run of a training in a real SQLite registry, and with a server that does not answer."""

import threading
import time

import pytest

from tests.support.registry_server import local_registry, submission
from ulr.registry import live
from ulr.registry.live import live_run


@pytest.fixture(autouse=True)
def short_interval(monkeypatch):
    monkeypatch.setattr(live, "INTERVAL_S", 0.05)
    monkeypatch.setattr(live, "CLOSE_TIMEOUT_S", 120)


def test_iterations_appear_while_it_runs_and_the_registered_run_replaces_them(tmp_path):
    registry = local_registry(tmp_path)
    values = [(1, 0.7), (2, 0.6), (3, 0.5)]
    with live_run(registry, "training joint", "f1", "pair_loss") as report:
        report(*values[0])
        report(2, None)
        sent, deadline = [], time.monotonic() + 120
        while not sent and time.monotonic() < deadline:
            sent = _history(registry)
        assert sent == values[:1]
        for iteration, value in values[1:]:
            report(iteration, value)
    assert _history(registry) == values
    registry.register(submission("f1"))
    runs = registry.client.search_runs([registry.experiment_id()])
    assert [run.info.run_name for run in runs] == [submission("f1").name]


def _history(registry):
    runs = registry.client.search_runs([registry.experiment_id()], "tags.`ulr.live` = 'f1'")
    return sorted(
        (point.step, point.value)
        for run in runs
        for point in registry.client.get_metric_history(run.info.run_id, "validation_pair_loss")
    )


class SilentServer:
    """A registry that answers a request only after `answer` is set."""

    client = None

    def __init__(self):
        self.requested, self.answer, self.answered = (threading.Event() for _ in range(3))

    def experiment_id(self):
        self.requested.set()
        self.answer.wait(120)
        self.answered.set()
        raise OSError


def test_a_training_does_not_wait_for_a_server_that_does_not_answer(monkeypatch):
    monkeypatch.setattr(live, "CLOSE_TIMEOUT_S", 0.01)
    server = SilentServer()
    with live_run(server, "training joint", "f1", "pair_loss") as report:
        report(1, 0.5)
        assert server.requested.wait(120)
    assert not server.answered.is_set()
    server.answer.set()


def test_without_a_registry_the_callback_does_nothing():
    with live_run(None, "training joint", "f1", "pair_loss") as report:
        report(1, 0.5)
