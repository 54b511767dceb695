"""Faults between a training and a real MLflow server, and entries of the registry that attack.

Requests or answers are lost once, or until the client gives up and the model is sent again. Then
the registry must have one version of the model, one finished run, and the text that was sent.
"""

from __future__ import annotations

import contextlib
import os
import pickle
import urllib.request
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

from tests.bench.faults.campaign import (
    Fault,
    Kind,
    Result,
    Verdict,
    crashed,
    lost,
    seeded,
    survived,
)
from tests.bench.faults.world import last_error, start
from tests.support.proxy import FaultProxy
from tests.support.registry_server import submission, tracking_server
from ulr.errors import RegistryUnavailable, UserError
from ulr.registry import CHAMPION, Registry
from ulr.registry.outbox import queue_if_unavailable, queued
from ulr.registry.submission import Submission
from ulr.warehouse.tables import Warehouse

_LIMIT_S = 120.0
_REQUESTS = (
    "experiments/create", "runs/search", "runs/create", "mlflow/logged-models", "runs/outputs",
    "artifacts/MLmodel", "artifacts/model.lgb", "runs/log-batch", "runs/update",
    "model-versions/create", "registered-models/create", "model-versions/search",
    "registered-models/alias",
)  # fmt: skip
_ACTIONS = ("lose answer", "lose request", "cut answer")
_TOO_OFTEN = 9  # more than MLflow's retries


@contextlib.contextmanager
def prepare(folder: Path) -> Iterator[str]:
    """Run a tracking server for all faults; each has its own experiment and model name."""
    with tracking_server(folder) as url:
        yield url


def faults(url: str, seed: int, quick: bool) -> list[Fault]:
    """Return lost answers to every request, outages, concurrent senders, and false entries."""
    requests = ("runs/create", "model-versions/create") if quick else _REQUESTS
    actions = ("lose answer",) if quick else _ACTIONS
    cases: list[tuple[str, Callable[..., Result]]] = [
        (
            f"{action} {request}".replace(" ", "-").replace("/", "-"),
            partial(_send, action=action, request=request),
        )
        for request in requests
        for action in actions
    ]
    cases += [(f"outage-{n}", _outage) for n in range(0 if quick else 6)]
    cases += [(f"concurrent-{n}", _concurrent) for n in range(0 if quick else 3)]
    attacks = ["pickle"] if quick else list(_FALSE_ENTRIES)
    cases += [(f"entry-{attack}", partial(_read_false_entry, attack=attack)) for attack in attacks]
    return [
        Fault("registry", name, partial(run, url=url, seed=seed, name=name), _LIMIT_S)
        for name, run in cases
    ]


def _registry(url: str, name: str) -> Registry:
    return Registry(url, experiment=name, name=name, retries=2, backoff=0)


def _send(folder: Path, *, action: str, request: str, url: str, seed: int, name: str) -> Result:
    times = seeded(seed, "registry", name).choice((1, _TOO_OFTEN))
    with FaultProxy(url) as proxy:
        # The first creation fails: the registered model does not exist yet.
        nth = 2 if request == "model-versions/create" else 1
        proxy.add(action, request, times=times, nth=nth)
        error = _register(_registry(proxy.url, name), name)
        hits = proxy.seen(request, action)
    return _send_again(url, name, f"{hits} requests; {error or 'sent'}")


def _outage(folder: Path, *, url: str, seed: int, name: str) -> Result:
    """The server stops answering at a random request, before or after it has processed it."""
    rng = seeded(seed, "registry", name)
    nth, action = rng.randrange(1, 33), rng.choice(("lose request", "lose answer", "unavailable"))
    with FaultProxy(url) as proxy:
        proxy.add(action, "/", nth=nth, times=100_000)
        error = _register(_registry(proxy.url, name), name)
    return _send_again(url, name, f"{action} from request {nth} on; {error or 'sent'}")


def _concurrent(folder: Path, *, url: str, seed: int, name: str) -> Result:
    """Some commands send the queued model at once."""
    warehouse = Warehouse(str(folder / "warehouse"))
    with contextlib.suppress(RegistryUnavailable), queue_if_unavailable(warehouse, _model(name)):
        raise RegistryUnavailable("for a fault")
    settings = {"warehouse.path": folder / "warehouse", "mlflow.tracking_uri": url,
                "mlflow.experiment": name, "mlflow.registered_model": name}  # fmt: skip
    flags = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    count = seeded(seed, "registry", name).randrange(2, 4)
    commands = [start(["registry", "sync", *flags], folder) for _ in range(count)]
    codes = sorted(command.wait() for command in commands)
    if not set(codes) <= {0, 1}:
        return crashed(f"exit codes {codes} instead of 0 or 1: {last_error(folder)}")
    if queued(warehouse) and (code := start(["registry", "sync", *flags], folder).wait()):
        return lost(f"a later sync failed with exit code {code}: {last_error(folder)}")
    return _check(url, name, f"{count} commands, exit codes {codes}")


def _register(registry: Registry, name: str) -> str:
    """Register the model and make it the champion; return the error of a server that is away."""
    try:
        registry.set_alias(CHAMPION, registry.register(_model(name)).version)
    except RegistryUnavailable as error:
        return f"RegistryUnavailable: {str(error)[:80]}"
    return ""


def _model(name: str) -> Submission:
    return submission(fingerprint=f"f-{name}")


def _send_again(url: str, name: str, detail: str) -> Result:
    """Send the model without a fault, as `ulr registry sync` would."""
    if error := _register(_registry(url, name), name):
        return lost(f"the model cannot be sent again: {error}; {detail}")
    return _check(url, name, detail)


def _check(url: str, name: str, detail: str) -> Result:
    registry = _registry(url, name)
    versions = registry.versions()
    if len(versions) != 1:
        return lost(f"{len(versions)} versions instead of 1; {detail}")
    runs = registry.client.search_runs([registry.experiment_id()])
    states = [run.info.status for run in runs]
    if states != ["FINISHED"]:
        return lost(f"runs {states} instead of one that is finished; {detail}")
    text = registry.model_text(f"models:/{name}/{versions[0].version}")
    return survived(detail) if text == _model(name).model else lost(f"another model; {detail}")


class _WriteMarker:
    """An object whose unpickling runs a command."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Callable[[str], int], tuple[str]]:
        return os.system, (f"touch {self.path}",)


_MLMODEL = """\
artifact_path: model
flavors:
  {flavor}:
    {options}
  python_function:
    loader_module: {loader}
    data: {data}
    python_version: 3.11.0
model_uuid: 0123456789abcdef0123456789abcdef
"""
# What an attacker writes over the files of a registered model: names and contents.
_FALSE_ENTRIES: dict[str, Callable[[bytes, bytes], dict[str, bytes]]] = {
    "pickle": lambda payload, module: {
        "model.lgb": payload, "model.pkl": payload,
        "MLmodel": _mlmodel("lightgbm", "model_class: lightgbm.sklearn.LGBMRanker\n    "
                            "data: model.pkl", "mlflow.lightgbm", "model.pkl"),
    },
    "sklearn": lambda payload, module: {
        "model.pkl": payload,
        "MLmodel": _mlmodel("sklearn", "pickled_model: model.pkl\n    "
                            "serialization_format: cloudpickle", "mlflow.sklearn", "model.pkl"),
    },
    "loader-module": lambda payload, module: {
        "code/attack.py": module,
        "MLmodel": _mlmodel("lightgbm", "data: model.lgb\n    code: code", "attack", "model.lgb"),
    },
    "model-class": lambda payload, module: {
        "code/attack.py": module,
        "MLmodel": _mlmodel("lightgbm", "model_class: attack.Model\n    data: model.lgb\n    "
                            "code: code", "mlflow.lightgbm", "model.lgb"),
    },
    "yaml-tag": lambda payload, module: {
        "MLmodel": b"flavors: !!python/object/apply:os.system ['" + module.split(b"'")[1] + b"']\n",
    },
    "outside-path": lambda payload, module: {
        "MLmodel": _mlmodel("lightgbm", "data: ../../../../../../etc/passwd", "mlflow.lightgbm",
                            "../../../etc/passwd"),
    },
    "another-model": lambda payload, module: {
        "model.lgb": submission(seed=2).model.encode(),
    },
    "truncated": lambda payload, module: {"model.lgb": submission().model.encode()[:1500]},
    "empty": lambda payload, module: {"model.lgb": b""},
}  # fmt: skip


def _mlmodel(flavor: str, options: str, loader: str, data: str) -> bytes:
    return _MLMODEL.format(flavor=flavor, options=options, loader=loader, data=data).encode()


def _read_false_entry(folder: Path, *, attack: str, url: str, seed: int, name: str) -> Result:
    """Overwrite files of a registered model, as anyone who reaches the server can; read it."""
    with FaultProxy(url) as proxy:
        _register(_registry(proxy.url, name), name)
        stored = next(r.target for r in proxy.requests if r.target.endswith("/MLmodel"))
    marker = folder / "executed"
    payload = pickle.dumps(_WriteMarker(str(marker)))
    module = f"import os; os.system('touch {marker}')\nclass Model: pass\n".encode()
    for path, content in _FALSE_ENTRIES[attack](payload, module).items():
        target = url + stored.removesuffix("MLmodel") + path
        urllib.request.urlopen(urllib.request.Request(target, content, method="PUT"), timeout=30)
    text, refused = "", ""
    try:
        text = _registry(url, name).model_text(f"models:/{name}@{CHAMPION}")
    except UserError as error:
        refused = str(error)
    if marker.exists():
        return Result(Verdict.EXECUTED, f"a command of the entry ran; {refused}")
    if text and text != _model(name).model:
        return lost("another model than the registered one was returned")
    return survived(f"refused: {refused[:120]}" if refused else "the registered model")


KIND = Kind("registry", prepare, faults)
