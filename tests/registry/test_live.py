"""A training that is watched in a real SQLite registry, and one whose server is away."""

import time

import pytest

from tests.support.registry_server import free_port, training
from ulr.registry import Registry, live
from ulr.registry.live import shown_live


@pytest.fixture(autouse=True)
def often(monkeypatch):
    monkeypatch.setattr(live, "INTERVAL_S", 0.05)


def test_rounds_are_there_while_it_runs_and_the_finished_training_takes_their_place(tmp_path):
    registry = Registry(str(tmp_path), experiment="tests", name="ranker")
    values = [(1, 0.7), (2, 0.6), (3, 0.5)]
    with shown_live(registry, "training joint", "f1", "pair_loss") as tell:
        tell(*values[0])
        tell(2, None)
        seen, by = [], time.monotonic() + 60
        while not seen and time.monotonic() < by:
            seen = _history(registry)
        assert seen == values[:1]
        for number, value in values[1:]:
            tell(number, value)
    assert _history(registry) == values
    registry.send(training("f1"))
    runs = registry.client.search_runs([registry.experiment_id()])
    assert [run.info.run_name for run in runs] == [training("f1").name]


def _history(registry):
    runs = registry.client.search_runs([registry.experiment_id()], "tags.`ulr.live` = 'f1'")
    return sorted(
        (point.step, point.value)
        for run in runs
        for point in registry.client.get_metric_history(run.info.run_id, "validation_pair_loss")
    )


def test_a_server_that_is_away_costs_the_training_nothing(monkeypatch):
    monkeypatch.setattr(live, "PATIENCE_S", 0.2)
    away = Registry(f"http://127.0.0.1:{free_port()}", experiment="tests", name="ranker",
                    retries=5, backoff=2)  # fmt: skip
    begun = time.monotonic()
    with shown_live(away, "training joint", "f1", "pair_loss") as tell:
        tell(1, 0.5)
        time.sleep(0.2)
    assert time.monotonic() - begun < 2


def test_without_a_registry_it_goes_nowhere():
    with shown_live(None, "training joint", "f1", "pair_loss") as tell:
        tell(1, 0.5)
