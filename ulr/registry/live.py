"""Send the validation metric of a training in progress to MLflow from a background thread.

A slow or unreachable server must not delay the training, so values are sent in batches and errors
are ignored. MLflow's asynchronous logging is not used, because it would delay every exit while the
server is down. The run of the registered model has the complete history and replaces the live run.
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
from ulr.registry.tags import FINGERPRINT, LIVE
from ulr.training.loop import IterationCallback

INTERVAL_S = 5.0
CLOSE_TIMEOUT_S = 5.0  # to send the last batch


class LiveRun:
    """The live run of one training. fingerprint: the one that the model is registered with."""

    def __init__(self, registry: Registry, name: str, fingerprint: str, metric: str) -> None:
        self._registry, self._name, self._fingerprint = registry, name, fingerprint
        self._metric = history_name(metric)
        self._values: queue.SimpleQueue[tuple[int, float]] = queue.SimpleQueue()
        self._closed, self._timed_out = threading.Event(), False
        self._thread = threading.Thread(target=self._send_until_closed, daemon=True)
        self._thread.start()

    def report(self, iteration: int, value: float | None) -> None:
        """Enqueue the metric value of an iteration."""
        if value is not None and math.isfinite(value):
            self._values.put((iteration, value))

    def close(self) -> None:
        """Stop sending; values that are not sent within the timeout are dropped."""
        self._closed.set()
        self._thread.join(CLOSE_TIMEOUT_S)
        self._timed_out = self._thread.is_alive()

    def _send_until_closed(self) -> None:
        run_id = None
        with contextlib.suppress(Exception):  # a server error must not stop the training
            while not self._closed.wait(INTERVAL_S):
                run_id = self._send(run_id)
            run_id = self._send(run_id) if run_id else None
            if run_id:
                self._registry.client.set_terminated(run_id)
            if run_id and self._timed_out:  # the model may have been registered in the meantime
                self._registry.client.delete_run(run_id)

    def _send(self, run_id: str | None) -> str | None:
        """Send the enqueued values, creating the run if there is none; return the run id."""
        now = int(time.time() * 1000)
        values = [Metric(self._metric, value, now, step) for step, value in self._drain()]
        if not values:
            return run_id
        client = self._registry.client
        if run_id is None:
            # With both tags, one search finds all runs that a registration replaces.
            tags = dict.fromkeys((LIVE, FINGERPRINT), self._fingerprint)
            experiment = self._registry.experiment_id()
            run_id = client.create_run(experiment, run_name=self._name, tags=tags).info.run_id
        client.log_batch(run_id, values)
        return run_id

    def _drain(self) -> Iterator[tuple[int, float]]:
        with contextlib.suppress(queue.Empty):
            while True:
                yield self._values.get_nowait()


@contextlib.contextmanager
def live_run(
    registry: Registry | None, name: str, fingerprint: str, metric: str
) -> Iterator[IterationCallback]:
    """Yield a callback that sends the metric of an iteration; a no-op without a registry."""
    if registry is None:
        yield lambda iteration, value: None
        return
    run = LiveRun(registry, name, fingerprint, metric)
    try:
        yield run.report
    finally:
        run.close()
