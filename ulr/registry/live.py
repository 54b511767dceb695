"""A training seen in MLflow while it runs, by a thread that nothing waits for.

News are sent in batches. A server that is slow or away costs the training nothing: it will have
the whole history from the finished training anyway, which replaces what was shown here.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
import time
from collections.abc import Iterator

from mlflow.entities import Metric

from ulr.registry.client import Registry
from ulr.registry.runs import LIVE, history_name
from ulr.training.loop import IterationCallback

INTERVAL_S = 5.0
PATIENCE_S = 5.0  # at the end, for the last batch


class Live:
    """The course of one training; fingerprint: what the finished one will be sent under."""

    def __init__(self, registry: Registry, name: str, fingerprint: str, metric: str) -> None:
        self._registry, self._name, self._fingerprint = registry, name, fingerprint
        self._metric = history_name(metric)
        self._news: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
        self._over, self._late = threading.Event(), False
        self._thread = threading.Thread(target=self._send_all, daemon=True)
        self._thread.start()

    def tell(self, number: int, value: float | None) -> None:
        """A round is done."""
        if value is not None and math.isfinite(value):
            self._news.put((number, value))

    def close(self) -> None:
        """No more news; what cannot be sent soon is dropped."""
        self._over.set()
        self._thread.join(PATIENCE_S)
        self._late = self._thread.is_alive()

    def _send_all(self) -> None:
        run = None
        with contextlib.suppress(Exception):  # whatever it is, the training goes on
            while not self._over.wait(INTERVAL_S):
                run = self._send(run)
            run = self._send(run) if run else None
            if run:
                self._registry.client.set_terminated(run)
            if run and self._late:  # the finished training may have been sent meanwhile
                self._registry.client.delete_run(run)

    def _send(self, run: str | None) -> str | None:
        """What has come in, to a run that is made when there is something."""
        now = int(time.time() * 1000)
        news = [Metric(self._metric, value, now, step) for step, value in self._taken()]
        if not news:
            return run
        client = self._registry.client
        if run is None:
            where, tags = self._registry.experiment_id(), {LIVE: self._fingerprint}
            run = client.create_run(where, run_name=self._name, tags=tags).info.run_id
        client.log_batch(run, news)
        return run

    def _taken(self) -> Iterator[tuple[int, float]]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._news.get_nowait()


@contextlib.contextmanager
def shown_live(
    registry: Registry | None, name: str, fingerprint: str, metric: str
) -> Iterator[IterationCallback]:
    """What is to be told of every round in the block; without a registry it goes nowhere."""
    if registry is None:
        yield lambda number, value: None
        return
    live = Live(registry, name, fingerprint, metric)
    try:
        yield live.tell
    finally:
        live.close()
