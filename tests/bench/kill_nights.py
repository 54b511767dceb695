"""Kill a night at a random moment, run it again, and compare with an uninterrupted night.

python -m tests.bench.kill_nights [KILLS]
"""

from __future__ import annotations

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ulr.cli.main import main
from ulr.registry import CHAMPION, Registry

ROOT = Path(__file__).parent.parent.parent


def settings(folder: Path, data: Path) -> list[str]:
    changes = {
        "warehouse.path": f"{folder}/warehouse", "mlflow.local_path": f"{folder}/mlflow",
        "simulate.path": data, "simulate.queries": 100, "simulate.pages_per_day": 5000,
        "simulate.days": 1, "simulate.features": 8, "simulate.docs_per_query": 8,
        "simulate.positions": 5, "log.path": f"{data}/log",
        "features.path": f"{data}/features",
        "groups.partitions": 2, "pairs.partitions": 2, "evaluate.partitions": 2,
        "pairs.test_fraction": 0.3, "train.num_iterations": 10,
        "promote.min_effective_sample_size": 10,
        "promote.diagnostics": "ignore", "propensities.min_clicks": 5,
    }  # fmt: skip
    return [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]


def night(flags: list[str], kill_after: float | None = None) -> tuple[int, float]:
    """Run a night in its own process group; return its exit code and seconds."""
    command = [sys.executable, "-m", "ulr.cli", "nightly", "--date", "2026-01-01", *flags]
    started = time.monotonic()
    env = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        start_new_session=True,
    )  # fmt: skip
    try:
        process.wait(kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return process.returncode, time.monotonic() - started


def state(folder: Path) -> dict[str, str]:
    """Return the hashes of the published files, and a summary of the registry."""
    hashes = {}
    for manifest in sorted((folder / "warehouse").rglob("manifest.json")):
        content = json.loads(manifest.read_text())
        # record.json contains the seconds of every worker, which differ between trainings.
        for name in (n for n in content["files"] if n != "record.json"):
            data = (manifest.parent / content["folder"] / name).read_bytes()
            key = f"{content['table']}/{content['partition']}/{name}"
            hashes[key] = hashlib.sha256(data).hexdigest()
    registry = Registry(str(folder / "mlflow"), experiment="ulr", name="ulr-ranker")
    versions = registry.versions()
    runs = registry.client.search_runs([registry.experiment_id()])
    champion = registry.version_with_alias(CHAMPION)
    hashes["registry"] = (
        f"{len(versions)} versions, {len(runs)} runs, champion {champion and champion.version}"
    )
    return hashes


def compare(kills: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        data, reference = Path(root) / "log", Path(root) / "reference"
        assert main(["simulate", *settings(reference, data)]) == 0
        code, seconds = night(settings(reference, data))
        if code:
            summary = (reference / "warehouse" / "nights" / "2026-01-01.json").read_text()
            sys.exit(f"the uninterrupted night failed with exit code {code}: {summary}")
        expected = state(reference)
        print(f"uninterrupted: {seconds:.1f} s; {expected['registry']}", flush=True)
        code, repeated = night(settings(reference, data))
        same = state(reference) == expected
        print(f"repeated: exit code {code}, {repeated:.1f} s, same state: {same}", flush=True)
        rng = random.Random(7)
        different = 0
        for number in range(kills):
            folder = Path(root) / f"killed{number}"
            _, lasted = night(settings(folder, data), rng.uniform(2, seconds))
            published = len(list(folder.rglob("manifest.json")))
            code, rest = night(settings(folder, data))
            same = state(folder) == expected
            different += not same
            print(f"killed after {lasted:.1f} s with {published} tables published; run again: "
                  f"exit code {code}, {rest:.1f} s, same state: {same}", flush=True)  # fmt: skip
        sys.exit(bool(different))


if __name__ == "__main__":
    compare(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
