"""The validation metric of a running training in MLflow, sent by a background thread.

A slow or unreachable server must not delay the training, so values are sent in batches and errors
are ignored. MLflow's asynchronous queue would delay every exit while the server is down. The
registered training has the complete history and replaces the live run.
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
from ulr.registry.runs import history_name
from ulr.registry.tags import LIVE
from ulr.training.loop import IterationCallback

INTERVAL_S = 5.0
CLOSE_TIMEOUT_S = 5.0  # for the last batch


class LiveRun:
    """The live run of one training. fingerprint: of the training when it is registered."""

    def __init__(self, registry: Registry, name: str, fingerprint: str, metric: str) -> None:
        self._registry, self._name, self._fingerprint = registry, name, fingerprint
        self._metric = history_name(metric)
        self._values: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
        self._closed, self._timed_out = threading.Event(), False
        self._thread = threading.Thread(target=self._send_until_closed, daemon=True)
        self._thread.start()

    def report(self, iteration: int, value: float | None) -> None:
        """Enqueue the value of an iteration."""
        if value is not None and math.isfinite(value):
            self._values.put((iteration, value))

    def close(self) -> None:
        """Stop sending; values that are not sent within the timeout are dropped."""
        self._closed.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        self._timed_out = self._thread.is_alive()

    def _send_until_closed(self) -> None:
        run = None
        with contextlib.suppress(Exception):  # no error of the server may stop the training
            while not self._closed.wait(INTERVAL_S):
                run = self._send(run)
            run = self._send(run) if run else None
            if run:
                self._registry.client.set_terminated(run)
            if run and self._timed_out:  # the training may have been registered in the meantime
                self._registry.client.delete_run(run)

    def _send(self, run: str | None) -> str | None:
        """Send the enqueued values; the first ones create the run. Return the id of the run."""
        now = int(time.time() * 1000)
        values = [Metric(self._metric, value, now, step) for step, value in self._take()]
        if not values:
            return run
        client = self._registry.client
        if run is None:
            experiment, tags = self._registry.experiment_id(), {LIVE: self._fingerprint}
            run = client.create_run(experiment, run_name=self._name, tags=tags).info.run_id
        client.log_batch(run, values)
        return run

    def _take(self) -> Iterator[tuple[int, float]]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._values.get_nowait()


@contextlib.contextmanager
def live_run(
    registry: Registry | None, name: str, fingerprint: str, metric: str
) -> Iterator[IterationCallback]:
    """Yield a callback that sends every iteration of the block; without a registry, a no-op."""
    if registry is None:
        yield lambda iteration, value: None
        return
    run = LiveRun(registry, name, fingerprint, metric)
    try:
        yield run.report
    finally:
        run.close()
