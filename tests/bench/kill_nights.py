"""Kill -9 at a random moment of a night, start it again: is it as if nothing had happened?

python tests/bench/kill_nights.py [KILLS]
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
    """Run a night in its own process group; exit code and seconds."""
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
    """Published files by what they are, and the registry."""
    found = {}
    for manifest in sorted((folder / "warehouse").rglob("manifest.json")):
        content = json.loads(manifest.read_text())
        # record.json tells how long every worker took, which no two trainings share.
        for name in (n for n in content["files"] if n != "record.json"):
            data = (manifest.parent / content["folder"] / name).read_bytes()
            key = f"{content['table']}/{content['partition']}/{name}"
            found[key] = hashlib.sha256(data).hexdigest()
    registry = Registry(str(folder / "mlflow"), experiment="ulr", name="ulr-ranker")
    versions = registry.versions()
    runs = registry.client.search_runs([registry.experiment_id()])
    champion = registry.version_with_alias(CHAMPION)
    found["registry"] = (
        f"{len(versions)} versions, {len(runs)} runs, champion {champion and champion.version}"
    )
    return found


def compare(kills: int) -> None:
    with tempfile.TemporaryDirectory() as root:
        place = Path(root)
        data = place / "log"
        assert main(["simulate", *settings(place / "whole", data)]) == 0
        code, seconds = night(settings(place / "whole", data))
        if code:
            told = (place / "whole" / "warehouse" / "nights" / "2026-01-01.json").read_text()
            sys.exit(f"the night to compare with failed, exit {code}: {told}")
        want = state(place / "whole")
        print(f"uninterrupted: {seconds:.1f} s; {want['registry']}", flush=True)
        code, again = night(settings(place / "whole", data))
        same = state(place / "whole") == want
        print(f"the same night again: exit {code}, {again:.1f} s, same state: {same}", flush=True)
        rng = random.Random(7)
        bad = 0
        for number in range(kills):
            folder = place / f"killed{number}"
            _, lasted = night(settings(folder, data), rng.uniform(2, seconds))
            left = len(list(folder.rglob("manifest.json")))
            code, rest = night(settings(folder, data))
            same = state(folder) == want
            bad += not same
            print(f"killed after {lasted:.1f} s with {left} tables published; started again: "
                  f"exit {code}, {rest:.1f} s, same state: {same}", flush=True)  # fmt: skip
        sys.exit(bool(bad))


if __name__ == "__main__":
    compare(int(sys.argv[1]) if len(sys.argv) > 1 else 10)
