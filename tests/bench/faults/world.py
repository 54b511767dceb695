"""A small log, the night made from it without a fault, and the warehouse before each stage."""

from __future__ import annotations

import atexit
import contextlib
import functools
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.cluster import JAVA_OPTIONS
from ulr.registry import CHAMPION, Registry

ROOT = Path(__file__).parents[3]
DATE = "2026-01-02"
STAGES = ("groups", "propensities", "pairs", "train", "evaluate", "promote")
# What each stage writes, as glob patterns below the warehouse.
WRITES = {
    "groups": ("groups/*", "quarantine/*"),
    "propensities": ("swap_documents/*", "swap_counts/*", "joint_propensities", "diagnostics",
                     "propensities"),
    "pairs": ("window/*", "metrics/stage=pairs*", "pairs/*"),
    "train": ("models/*", "checkpoints/*"),
    "evaluate": ("metrics/stage=evaluate*",),
    "promote": ("nights", "reports"),
}  # fmt: skip
_SETTINGS = {
    "simulate.queries": 100, "simulate.pages_per_day": 3000, "simulate.days": 2,
    "simulate.features": 8, "simulate.docs_per_query": 8, "simulate.positions": 5,
    "groups.partitions": 2, "pairs.partitions": 2, "evaluate.partitions": 2,
    "pairs.test_fraction": 0.3, "train.num_iterations": 40, "train.early_stopping_round": 0,
    "train.checkpoint_every": 5, "lightgbm.num_leaves": 8, "propensities.min_clicks": 5,
    "promote.min_effective_clicks": 10, "promote.min_effective_queries": 10,
    "promote.diagnostics": "ignore",
    "spark.driver.memory": "1g", "spark.driver.extraJavaOptions": JAVA_OPTIONS,
    "spark.sql.shuffle.partitions": 2, "mlflow.live": False,
}  # fmt: skip


@dataclass(frozen=True)
class World:
    """The log, and the warehouse and registry of an uninterrupted night.

    expected: what `state` returns for that night.
    """

    folder: Path
    expected: Mapping[str, str]

    def before(self, stage: str, warehouse: Path) -> None:
        """Copy the warehouse as it was before a stage of the night."""
        shutil.copytree(self.folder / "warehouse", warehouse, dirs_exist_ok=True)
        for later in STAGES[STAGES.index(stage) :]:
            for pattern in WRITES[later]:
                for path in warehouse.glob(pattern):
                    shutil.rmtree(path)

    def flags(self, folder: Path, **changes: Any) -> list[str]:
        """Return the options of a command with warehouse and registry in a folder."""
        data = self.folder / "data"
        places = {
            "warehouse.path": folder / "warehouse", "mlflow.local_path": folder / "mlflow",
            "simulate.path": data, "log.path": data / "log", "features.path": data / "features",
        }  # fmt: skip
        values = {**_SETTINGS, **places, **changes}
        return [word for key, value in values.items() for word in ("--set", f"{key}={value}")]

    def start_night(self, folder: Path, **changes: Any) -> subprocess.Popen[bytes]:
        """Start a night in its own process group, with its output in night.txt."""
        return start(["nightly", "--date", DATE, *self.flags(folder, **changes)], folder)

    def night(self, folder: Path, **changes: Any) -> int:
        """Run a night and return its exit code."""
        return self.start_night(folder, **changes).wait()

    def differences(self, folder: Path) -> list[str]:
        """Return how tables and registry differ from those of the uninterrupted night."""
        actual = state(folder)
        keys = sorted(self.expected.keys() | actual.keys())
        return [
            f"{key}: {actual.get(key, 'missing')[:40]} instead of "
            f"{self.expected.get(key, 'nothing')[:40]}"
            for key in keys
            if actual.get(key) != self.expected.get(key)
        ]


@contextlib.contextmanager
def prepared_world(folder: Path) -> Iterator[World]:
    """Yield the world of this campaign, which all kinds of faults share."""
    yield _world()


@functools.cache
def _world() -> World:
    """Simulate a log and run the uninterrupted night; the folder is removed at exit."""
    folder = Path(tempfile.mkdtemp(prefix="ulr-faults-world-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    world = World(folder, {})
    for command in (["simulate"], ["nightly", "--date", DATE]):
        if code := start([*command, *world.flags(folder)], folder).wait():
            output = (folder / "night.txt").read_text()
            raise RuntimeError(f"{command[0]} failed with exit code {code} and no fault: {output}")
    return World(folder, state(folder))


def start(command: list[str], folder: Path, first: Sequence[str] = ()) -> subprocess.Popen[bytes]:
    """Start `ulr COMMAND` in its own process group; its output goes to night.txt.

    first: folders that Python searches for modules before the repository.
    """
    path = os.pathsep.join([*first, str(ROOT)])
    with (folder / "night.txt").open("ab") as output:
        return subprocess.Popen(
            [sys.executable, "-m", "ulr.cli", *command], env=os.environ | {"PYTHONPATH": path},
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, process_group=0,
        )  # fmt: skip


def last_error(folder: Path) -> str:
    """Return the last line that a command of `start` printed as an error."""
    lines = (folder / "night.txt").read_text(errors="replace").splitlines()
    return next((line for line in reversed(lines) if line.startswith("ulr: ")), "no error line")


def state(folder: Path) -> dict[str, str]:
    """Return the hashes of the published files, and a summary of the registry."""
    summary = published(folder / "warehouse")
    registry = Registry(str(folder / "mlflow"), experiment="ulr", name="ulr-ranker")
    versions = registry.versions()
    runs = registry.client.search_runs([registry.experiment_id()])
    champion = registry.version_with_alias(CHAMPION)
    running = sum(run.info.status == "RUNNING" for run in runs)
    summary["registry"] = (
        f"{len(versions)} versions, {len(runs)} runs, {running} running, "
        f"champion {champion and champion.version}"
    )
    return summary


def published(warehouse: Path) -> dict[str, str]:
    """Return the SHA-256 of every published file by table, partition and name.

    A manifest or file that cannot be read has the reason as its value.
    """
    hashes = {}
    for manifest in sorted(warehouse.rglob("manifest.json")):
        where = str(manifest.parent.relative_to(warehouse))
        try:
            content = json.loads(manifest.read_text())
        except (OSError, ValueError) as error:
            hashes[where] = f"a manifest that cannot be read: {error}"
            continue
        names = [file if isinstance(file, str) else file["name"] for file in content["files"]]
        # record.json contains the seconds of every worker, which differ between trainings.
        for name in (n for n in names if n != "record.json"):
            try:
                data = (manifest.parent / content["folder"] / name).read_bytes()
                hashes[f"{where}/{name}"] = hashlib.sha256(data).hexdigest()
            except OSError as error:
                hashes[f"{where}/{name}"] = f"unreadable: {error.strerror}"
    return hashes
