"""Cut the power of the disk with the warehouse, restart, and look for published data that is gone.

The warehouse is on an ext4 filesystem in a file. The filesystem's own shutdown request discards
everything that was not forced to the disk, as a power cut does. A writer that has reported a
publication must find it complete after the restart, and the next run must repair the rest.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tests.bench.faults.campaign import Fault, Kind, Result, lost, seeded, survived
from tests.bench.faults.disks import PowerCutDisk, cannot_mount
from tests.bench.faults.processes import kill_session
from tests.bench.faults.world import (
    World,
    last_error,
    prepared_world,
    published,
)
from ulr.warehouse.tables import Warehouse

_MAX_DELAY_S = 4.0  # several commits of the journal, and less than the kernel's write-back of 30 s
_SETTLE_S = 0.5  # a manifest may be visible a moment before it is durable
_TABLES = 5


def faults(world: World, seed: int, quick: bool) -> list[Fault]:
    """Return cuts after publications, during publications, and in the stages of a night."""
    after, during, nights = (2, 1, 0) if quick else (12, 8, 6)
    return [
        Fault("power", name, partial(run, *arguments, seed, name), limit)
        for run, arguments, name, limit in (
            *((_cut_after, (), f"after-{n}", 90.0) for n in range(after)),
            *((_cut_during, (), f"during-{n}", 90.0) for n in range(during)),
            *((_cut_a_night, (world, stage), f"night-{stage}-{n}", 240.0)
              for n in range(nights // 3) for stage in ("groups", "pairs", "train")),
        )
    ]  # fmt: skip


def _cut_after(seed: int, name: str, folder: Path) -> Result:
    """Publish some tables, wait, and cut the power: all of them were reported as published."""
    rng = seeded(seed, "power", name)
    disk = PowerCutDisk(folder)
    warehouse = Warehouse(str(disk.path / "warehouse"))
    for _ in range(rng.randrange(1, 3)):  # a second publication replaces the first
        contents = {n: _table(rng) for n in range(_TABLES)}
        for n, table in contents.items():
            _publish(warehouse, n, table)
    time.sleep(rng.uniform(0, _MAX_DELAY_S))
    disk.cut()
    disk.restore()
    return _check(warehouse, contents)


def _cut_during(seed: int, name: str, folder: Path) -> Result:
    """Cut the power while a process publishes; only what it has reported must be there."""
    rng = seeded(seed, "power", name)
    disk = PowerCutDisk(folder)
    receiver, sender = get_context("fork").Pipe(duplex=False)
    path = str(disk.path / "warehouse")
    writer = get_context("fork").Process(target=_publish_for_ever, args=(path, seed, name, sender))
    writer.start()
    receiver.poll(60)
    time.sleep(rng.uniform(0, 2))
    disk.cut()
    os.kill(writer.pid or 0, signal.SIGKILL)
    writer.join()
    sender.close()
    reported = _all_of(receiver)
    disk.restore()
    contents = _contents(seed, name, reported + 1)
    expected = {n: contents[version] for n, version in _last_versions(reported).items()}
    # The publication after the last reported one may have been complete.
    begun = {reported % _TABLES: contents[reported]}
    return _check(Warehouse(path), expected, begun)


def _cut_a_night(world: World, stage: str, seed: int, name: str, folder: Path) -> Result:
    """Cut the power at a moment of a night; the next night has to repair the warehouse."""
    rng = seeded(seed, "power", name)
    disk = PowerCutDisk(folder)
    (disk.path / "warehouse").mkdir()
    (folder / "warehouse").symlink_to(disk.path / "warehouse")
    world.before(stage, disk.path / "warehouse")
    disk.flush()
    process = world.start_night(folder)
    manifests = len(list(disk.path.rglob("manifest.json"))) + rng.randrange(3)
    while process.poll() is None and len(list(disk.path.rglob("manifest.json"))) <= manifests:
        time.sleep(0.01)
    time.sleep(rng.uniform(0, _MAX_DELAY_S))
    before = published(disk.path / "warehouse")
    time.sleep(_SETTLE_S)
    disk.cut()
    _end_night(process)
    disk.restore()
    after = published(disk.path / "warehouse")
    if gone := [key for key in before if before[key] != after.get(key)]:
        first = f"{gone[0]}: {after.get(gone[0], 'missing')[:60]}"
        repaired = _repair(world, folder)
        return lost(f"{len(gone)} of {len(before)} files after the cut: {first}{repaired}")
    if problem := _repair(world, folder):
        return lost(problem)
    return survived(f"{len(after)} published files after the cut")


def _repair(world: World, folder: Path) -> str:
    """Run the night again; return what is still wrong, or ""."""
    if code := world.night(folder):
        return f"; the night after failed with exit code {code}: {last_error(folder)}"
    differences = world.differences(folder)
    return f"; the night after left {len(differences)} differences" if differences else ""


def _end_night(process: Any) -> None:
    """Kill the night and its JVM, which have no disk any more."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    kill_session(os.getsid(0), spare=(os.getpid(),))


def _check(
    warehouse: Warehouse, expected: dict[int, pa.Table], begun: dict[int, pa.Table] | None = None
) -> Result:
    """Read all tables; publish again those that nothing was promised for, and read them."""
    for n, table in expected.items():
        allowed = [table, *([begun[n]] if begun and n in begun else [])]
        try:
            found = warehouse.read("scores", f"n={n}")
        except Exception as error:
            again = _publish_again(warehouse, n, table)
            return lost(f"table {n}: {type(error).__name__}: {str(error)[:120]}{again}")
        if not any(found.equals(one) for one in allowed):
            return lost(f"table {n} has {found.num_rows} rows of another publication")
    for n in range(_TABLES):
        table = pa.table({"value": [n]})
        if problem := _publish_again(warehouse, n, table):
            return lost(f"table {n}{problem}")
    return survived(f"{len(expected)} published tables are complete")


def _publish_again(warehouse: Warehouse, n: int, table: pa.Table) -> str:
    """Return why the table cannot be published again, or ""."""
    try:
        _publish(warehouse, n, table)
        return "" if warehouse.read("scores", f"n={n}").equals(table) else "; not repaired"
    except Exception as error:
        return f"; not repaired: {type(error).__name__}: {str(error)[:80]}"


def _publish_for_ever(path: str, seed: int, name: str, sender: Any) -> None:
    warehouse, contents = Warehouse(path), _contents(seed, name, 2000)
    for version, table in enumerate(contents):
        _publish(warehouse, version % _TABLES, table)
        sender.send(version)


def _contents(seed: int, name: str, count: int) -> list[pa.Table]:
    rng = seeded(seed, "power", f"{name}/contents")
    return [_table(rng) for _ in range(count)]


def _last_versions(reported: int) -> dict[int, int]:
    return {version % _TABLES: version for version in range(reported)}


def _all_of(receiver: Any) -> int:
    """Return how many publications were reported."""
    count = 0
    try:
        while receiver.poll(0):
            count = receiver.recv() + 1
    except EOFError:
        pass
    return count


def _table(rng: random.Random) -> pa.Table:
    rows = rng.randrange(1, 20_000)
    values = np.random.default_rng(rng.randrange(1 << 32)).random(rows)
    return pa.table({"value": values})


def _publish(warehouse: Warehouse, n: int, table: pa.Table) -> None:
    with warehouse.writing("scores", f"n={n}", f"f{table.num_rows}") as transaction:
        transaction.write_table(table)
        transaction.publish({"rows": table.num_rows})


KIND = Kind("power", prepared_world, faults, unavailable=cannot_mount)
