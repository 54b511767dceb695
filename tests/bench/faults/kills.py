"""Kill a process of a night in each of its stages, and run the night again.

The second night has to end with the bytes of an uninterrupted one: all tables, the model, one
version in the registry. The moment is an event of the stage, plus a random delay.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from tests.bench.faults.campaign import (
    Fault,
    Kind,
    Result,
    crashed,
    lost,
    seeded,
    survived,
)
from tests.bench.faults.processes import Process, session_processes
from tests.bench.faults.world import STAGES, WRITES, World, last_error, prepared_world

_LIMIT_S = 240.0
_POLL_S = 0.005
_TEMPORARY = 1  # exit code of a failure that may pass if tried again

# The moments of a stage, with the longest delay after each.
_MOMENTS = {"begun": 2.0, "writing": 0.5, "publishing": 0.05}
# How often each is killed in a stage, by engine. A stopped worker (SIGSTOP) neither ends nor
# answers; the local engine finds it in training only.
_VICTIMS = {
    "local": {"driver": 3, "worker": 2, "stopped-worker": 1},
    "spark": {"driver": 3, "jvm": 2, "worker": 1, "stopped-worker": 1},
}
_WITHOUT_WORKERS = ("propensities", "promote")  # stages without workers to kill
_QUICK = {("local", "groups", "driver"), ("local", "train", "worker"), ("spark", "train", "jvm")}
_STOPPED_S = 6.0  # until a stopped worker counts as lost
_SHORT_TIMEOUTS = {"spark.ulr.workerTimeout": _STOPPED_S, "train.worker_timeout": _STOPPED_S}


def faults(world: World, seed: int, quick: bool) -> list[Fault]:
    """Return the kills of every stage, and of whole nights at any moment."""
    cases = [
        (engine, stage, victim, moment, n)
        for engine, victims in _VICTIMS.items()
        for stage in (("groups", "train") if quick else STAGES)
        for victim, times in victims.items()
        if _exists(engine, stage, victim)
        for n, moment in enumerate(_moments(victim, 1 if quick else times))
    ]
    if quick:
        cases = [case for case in cases if case[:3] in _QUICK]
    whole = 0 if quick else 4
    return [
        Fault(
            "kills",
            name,
            partial(
                _kill_in_stage,
                world=world,
                engine=engine,
                stage=stage,
                victim=victim,
                moment=moment,
                rng=seeded(seed, "kills", name),
            ),
            _LIMIT_S,
        )
        for engine, stage, victim, moment, n in cases
        for name in [f"{engine}-{stage}-{victim}-{moment}-{n}"]
    ] + [
        Fault(
            "kills",
            name,
            partial(_kill_a_night, world, seeded(seed, "kills", name), engine),
            _LIMIT_S,
        )
        for engine in _VICTIMS
        for name in (f"{engine}-night-driver-{n}" for n in range(whole))
    ]


def _exists(engine: str, stage: str, victim: str) -> bool:
    """Return whether a stage has such a process, and its loss is noticed."""
    if engine == "local" and victim == "stopped-worker":
        return stage == "train"
    return "worker" not in victim or stage not in _WITHOUT_WORKERS


def _moments(victim: str, times: int) -> list[str]:
    """Return when to kill; a worker has ended when its files are published."""
    moments = list(_MOMENTS) if "worker" not in victim else ["begun", "writing"]
    return [moments[n % len(moments)] for n in range(times)]


def _kill_in_stage(
    folder: Path,
    *,
    world: World,
    engine: str,
    stage: str,
    victim: str,
    moment: str,
    rng: random.Random,
) -> Result:
    warehouse = folder / "warehouse"
    world.before(stage, warehouse)
    changes: dict[str, object] = {"engine": engine}
    if victim == "stopped-worker":
        changes |= _SHORT_TIMEOUTS
    process = world.start_night(folder, **changes)
    while process.poll() is None and not _EVENTS[moment](warehouse, stage):
        time.sleep(_POLL_S)
    if (engine, victim) != ("local", "stopped-worker"):  # at once, before the training ends
        time.sleep(rng.uniform(0, _MOMENTS[moment]))
    killed = _kill(process, victim)
    return _run_again(world, folder, killed, process)


def _kill_a_night(world: World, rng: random.Random, engine: str, folder: Path) -> Result:
    """Kill a night that has nothing published, after a random number of tables."""
    warehouse = folder / "warehouse"
    process = world.start_night(folder, engine=engine)
    tables = rng.randrange(1, 9)
    while process.poll() is None and len(list(warehouse.rglob("manifest.json"))) < tables:
        time.sleep(_POLL_S)
    time.sleep(rng.uniform(0, 2))
    return _run_again(world, folder, _kill(process, "driver"), process)


def _kill(process: subprocess.Popen[bytes], victim: str) -> str:
    """Kill a victim once it exists; return its name, or "" if the night ended before."""
    while process.poll() is None:
        if victim == "driver":
            os.killpg(process.pid, signal.SIGKILL)
            return "driver"
        processes = session_processes(os.getsid(0))
        if chosen := [p for p in processes if _IS_VICTIM[victim](p, processes, process.pid)]:
            stops = victim == "stopped-worker"
            newest = min(chosen, key=lambda p: p.seconds)  # others may be idle
            os.kill(newest.pid, signal.SIGSTOP if stops else signal.SIGKILL)
            return victim
        time.sleep(_POLL_S)
    return ""


def _is_worker(process: Process, processes: list[Process], driver: int) -> bool:
    """Workers are forked from Spark's daemon, or from the local engine's server."""
    servers = {
        p.pid
        for p in processes
        if "pyspark.daemon" in p.command
        or ("multiprocessing.forkserver" in p.command and p.parent == driver)
    }
    return process.parent in servers


def _is_jvm(process: Process, processes: list[Process], driver: int) -> bool:
    return "org.apache.spark.deploy.SparkSubmit" in process.command


def _run_again(world: World, folder: Path, killed: str, process: subprocess.Popen[bytes]) -> Result:
    code = process.wait()
    first = f"killed {killed or 'nothing: it had ended'}, exit code {code}"
    if killed and killed != "driver" and code not in {0, _TEMPORARY}:
        return crashed(f"{first} instead of 1: {last_error(folder)}")
    if code := world.night(folder):
        return lost(f"{first}; the night after failed with exit code {code}: {last_error(folder)}")
    if differences := world.differences(folder):
        return lost(f"{first}; {len(differences)} differences: {'; '.join(differences)[:300]}")
    return survived(first)


def _begun(warehouse: Path, stage: str) -> bool:
    """Return whether a lock of one of the stage's tables is held, or the registry is opened."""
    if stage == "promote":
        return (warehouse.parent / "mlflow").exists()
    return any(lock.read_bytes() for lock in _below(warehouse, stage, ".lock"))


def _writing(warehouse: Path, stage: str) -> bool:
    """Return whether a file of a new version, or an artifact of the model, is being written."""
    if stage == "promote":
        return any((warehouse.parent / "mlflow").glob("artifacts/*/*"))
    written = _below(warehouse, stage, "*/*", "*.json")
    return any(path.is_file() and path.name != "manifest.json" for path in written)


def _publishing(warehouse: Path, stage: str) -> bool:
    """Return whether one of the stage's tables, or the night's summary, is published."""
    name = "2026*" if stage == "promote" else "manifest.json"
    return bool(_below(warehouse, stage, name))


def _below(warehouse: Path, stage: str, *names: str) -> list[Path]:
    return [
        path
        for pattern in WRITES[stage]
        for folder in warehouse.glob(pattern)
        for name in names
        for path in folder.glob(name)
    ]


_EVENTS: dict[str, Callable[[Path, str], bool]] = {
    "begun": _begun, "writing": _writing, "publishing": _publishing,
}  # fmt: skip
_IS_VICTIM = {"jvm": _is_jvm, "worker": _is_worker, "stopped-worker": _is_worker}
KIND = Kind("kills", prepared_world, faults)
