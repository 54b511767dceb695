"""Registries for tests: a SQLite file, a real tracking server over HTTP, and a submission."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import socket
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path

import lightgbm as lgb
import numpy as np

from tests.support.report_samples import importance
from tests.support.waiting import LIMIT_S, wait_until
from ulr.config.load import load_settings
from ulr.evaluation.totals import Column, Totals, total
from ulr.registry import Registry
from ulr.registry.client import DATABASE
from ulr.registry.submission import Submission

WIDTH = 4
CURVE = [{"segment": None, "position": k, "theta": 1 / k, "lower": 0.9 / k, "upper": None,
          "source": "estimated", "estimator": "combined"} for k in (1, 2, 3)]  # fmt: skip


def put_empty_database(folder: Path) -> None:
    """Write an empty SQLite file of MLflow into a folder, a copy, because creating one is slow."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / DATABASE).write_bytes(_empty_database())


def local_registry(folder: Path) -> Registry:
    """Return a registry in an empty SQLite file."""
    put_empty_database(folder)
    return Registry(str(folder), experiment="tests", name="ranker")


@functools.cache
def _empty_database() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        assert Registry(folder, experiment="tests", name="ranker").versions() == []
        return (Path(folder) / DATABASE).read_bytes()


@contextlib.contextmanager
def tracking_server(folder, port=None):
    """Run a server for the block and yield its URL.

    It has its own process group, so that its workers are stopped with it.
    """
    port = port or free_port()
    url = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port),
               "--workers", "1", "--backend-store-uri", f"sqlite:///{folder}/server.db",
               "--artifacts-destination", f"{folder}/artifacts"]  # fmt: skip
    # Without the seven processes for background jobs, which no test sends.
    settings = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
    environ = os.environ | settings
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            command, stdout=log, stderr=log, env=environ, start_new_session=True
        )
        try:
            wait_until(lambda: _responds(f"{url}/health", server), f"no server at {url}")
            yield url
        finally:
            os.killpg(server.pid, 15)
            server.wait(LIMIT_S)


def comparison(registry, run_id):
    """Return the table of a comparison; MLflow reads it from the configured server."""
    with registry.connected():
        return registry.client.load_table(registry.experiment_id(), "comparison.json", [run_id])


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def _responds(url: str, server: subprocess.Popen) -> bool:
    assert server.poll() is None, "the server ended; see its log"
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=30):
        return True
    return False


def promote_settings(**changes):
    """Return the default settings of the gate with changes, and without a number of queries."""
    defaults = load_settings(None, []).promote
    return defaults.model_copy(update={"min_effective_queries": 0, **changes})


def evaluation(gap):
    """Return an evaluation in which the challenger leads every rival by `gap`, significantly."""
    weight, noise = np.ones(50), 0.001 * np.cos(np.arange(50))

    def evaluate(rivals):
        totals = Totals()
        for name in rivals:
            lead = [Column("snips_dcg", None, gap + noise, weight)]
            totals += total(lead, "joint", None, against=name)
            totals += total([Column("snips_dcg", None, 1 + noise, weight)], name, None)
        return totals

    return evaluate


def submission(fingerprint="f1", seed=1, width=WIDTH):
    """Return a small model with a record."""
    x = np.random.default_rng(seed).normal(size=(200, width)).astype(np.float32)
    settings = {"objective": "regression", "verbose": -1, "num_leaves": 4, "num_threads": 1}
    booster = lgb.train(settings, lgb.Dataset(x, x[:, 0].copy()), 3)
    return Submission(
        fingerprint=fingerprint,
        name="joint 2026-01-01..2026-01-03",
        model=booster.model_to_string(),
        example=x[:3].tolist(),
        params={"train.num_iterations": "3", "pairs.method": "joint", "long": "x" * 900},
        tags={"ulr.fingerprint": fingerprint, "ulr.method": "joint",
              "ulr.window": "2026-01-01..2026-01-03"},
        metrics={"ndcg_at_10": 0.5, "ndcg_at_10_lower": 0.4, "none": float("inf")},
        history={"pair_loss": [0.7, 0.6, 0.65]},
        files={"biases.json": '{"t_plus": [1.0, 0.5]}', "propensities.json": json.dumps(CURVE),
               "record.json": json.dumps({"importance": importance(3)})},
    )  # fmt: skip
