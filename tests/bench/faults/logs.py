"""Click logs with one fault each: text that is not UTF-8, damaged pages, impossible values.

`ulr groups` reads each. It must end with exit code 0, 2 or 3 and one line. If it publishes, every
row is a page, a counted duplicate, or in quarantine.
"""

from __future__ import annotations

import json
import random
import re
import tempfile
from functools import partial
from pathlib import Path

from tests.bench.faults.campaign import Fault, Kind, Result, crashed, lost, nothing, survived
from tests.bench.faults.world import start
from tests.support import fuzzed_logs
from tests.support.cluster import JAVA_OPTIONS

_DATE = "2026-01-01"
_LIMIT_S = 150.0
_COUNT, _QUICK_COUNT = 40, 2
_SETTINGS = ("groups.partitions=1", "spark.driver.memory=1g", "spark.master=local[1]",
             f"spark.driver.extraJavaOptions={JAVA_OPTIONS}")  # fmt: skip


def faults(prepared: None, seed: int, quick: bool) -> list[Fault]:
    """Return a sample of all fuzzed logs; the seed chooses it."""
    count = _QUICK_COUNT if quick else _COUNT
    numbers = random.Random(seed).sample(range(fuzzed_logs.FAULTS), count)
    return [Fault("logs", _name(n), partial(_read, n), _LIMIT_S) for n in sorted(numbers)]


def _name(number: int) -> str:
    with tempfile.TemporaryDirectory() as folder:
        name = fuzzed_logs.write_fault(number, Path(folder) / "log").name
    return f"{number}-" + re.sub(r"\W+", "-", name).strip("-")


def _read(number: int, folder: Path) -> Result:
    fault = fuzzed_logs.write_fault(number, folder / "log" / f"dt={_DATE}")
    settings = (*fault.settings, *_SETTINGS, f"log.path={folder}/log",
                f"warehouse.path={folder}/warehouse")  # fmt: skip
    flags = [word for setting in settings for word in ("--set", setting)]
    code = start(["groups", "--date", _DATE, *flags], folder).wait()
    output = (folder / "night.txt").read_text(errors="replace").strip()
    if code not in fault.exit_codes:
        return crashed(f"exit code {code}: {output[-200:]}")
    manifest = folder / "warehouse" / "groups" / f"dt={_DATE}" / "manifest.json"
    if code:
        if manifest.exists():
            return lost(f"published although the exit code is {code}")
        lines = output.splitlines()
        if len(lines) != 1:
            return crashed(f"{len(lines)} lines instead of one: {output[-200:]}")
        return survived(f"exit code {code}: {lines[0][:120]}")
    counts = json.loads(manifest.read_text())["counts"]
    if missing := fuzzed_logs.unaccounted(counts):
        return lost(f"{missing} of {counts['read']} rows are neither pages nor in quarantine")
    if absent := [r for r in fault.reasons if not counts.get(f"bad:{r}")]:
        return lost(f"no row in quarantine as {', '.join(absent)}")
    return survived(f"{counts['pages']} pages of {counts['read']} rows")


KIND = Kind("logs", nothing, faults)
