"""Full disks, and published files that are missing, short or altered.

A disk is a filesystem in memory with a limit. When it is full, a command must end with exit code 1
and leave every published table complete. Once there is space, the next run must end with the bytes
of an uninterrupted night. The next run also has to rebuild a published file that was damaged.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

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
from tests.bench.faults.disks import cannot_mount, mount_tmpfs, resize_tmpfs
from tests.bench.faults.world import STAGES, World, last_error, prepared_world, published, start
from ulr.warehouse.tables import Warehouse

_LARGE = 512 << 20
_NIGHT_LIMIT_S, _LIMIT_S = 240.0, 60.0
_TEMPORARY = 1  # exit code of a failure that may pass if tried again


def faults(world: World, seed: int, quick: bool) -> list[Fault]:
    """Return full disks under publications and nights, and damaged files."""
    publications, temporary, damaged = (2, 0, 1) if quick else (8, 2, 8)
    stages = () if quick else STAGES
    cases: list[tuple[str, Callable[..., Result], float]] = [
        *((f"publication-{n}", _fill_by_publications, _LIMIT_S) for n in range(publications)),
        *((f"night-{stage}", partial(_fill_in_stage, world, stage), _NIGHT_LIMIT_S)
          for stage in stages),
        *((f"temporary-{n}", partial(_fill_temporary, world), _NIGHT_LIMIT_S)
          for n in range(temporary)),
    ]  # fmt: skip
    if reason := cannot_mount():
        cases = [(name, partial(_skipped, reason), limit) for name, _, limit in cases]
    cases += [
        (f"{damage}-{n}", partial(_damage, world, damage), _NIGHT_LIMIT_S)
        for n in range(damaged)
        for damage in [list(_DAMAGES)[n % len(_DAMAGES)]]
    ]
    return [Fault("disk", name, partial(run, seed, name), limit) for name, run, limit in cases]


def _skipped(reason: str, seed: int, name: str, folder: Path) -> Result:
    return Result(Verdict.SKIPPED, reason)


def _fill_by_publications(seed: int, name: str, folder: Path) -> Result:
    """Publish until the disk is full; what was published stays, and there is space later."""
    rng = seeded(seed, "disk", name)
    disk = folder / "disk"
    mount_tmpfs(disk, rng.randrange(200_000, 3_000_000))
    warehouse, expected = Warehouse(str(disk / "warehouse")), {}
    error: Exception | None = None
    for n in range(200):
        table = pa.table({"value": np.random.default_rng(n).random(rng.randrange(1, 30_000))})
        try:
            _publish(warehouse, n % 3, table)
            expected[n % 3] = table
        except Exception as full:
            error = full
            break
    if error is None:
        return crashed("the disk did not become full")
    if getattr(error, "exit_code", _TEMPORARY) != _TEMPORARY or not _is_full(error):
        return crashed(f"{type(error).__name__}: {str(error)[:150]}")
    for partition, content in expected.items():
        if not warehouse.read("scores", f"n={partition}").equals(content):
            return lost(f"table {partition} is not the published one after the disk was full")
    resize_tmpfs(disk, _LARGE)
    _publish(warehouse, 0, table)
    if not warehouse.read("scores", "n=0").equals(table):
        return lost("a table that was published after there was space is another one")
    return survived(f"{n} publications; {type(error).__name__}: {str(error)[:80]}")


def _is_full(error: BaseException | None) -> bool:
    """Return whether an error or its cause says that no space is left."""
    while error is not None:
        full = getattr(error, "errno", None) == errno.ENOSPC
        if full or "No space left" in str(error) or "disk is full" in str(error).lower():
            return True
        error = error.__cause__ or error.__context__
    return False


def _publish(warehouse: Warehouse, n: int, table: pa.Table) -> None:
    with warehouse.writing("scores", f"n={n}", f"f{table.num_rows}") as transaction:
        transaction.write_table(table)
        transaction.publish({"rows": table.num_rows})


def _fill_in_stage(world: World, stage: str, seed: int, name: str, folder: Path) -> Result:
    """Run a night on a disk that becomes full in a stage, or in a later one."""
    rng = seeded(seed, "disk", name)
    disk = folder / "disk"
    mount_tmpfs(disk, _LARGE)
    places = ("warehouse", "mlflow") if stage == "promote" else ("warehouse",)
    for place in places:
        (disk / place).mkdir()
        (folder / place).symlink_to(disk / place)
    world.before(stage, disk / "warehouse")
    before = published(disk / "warehouse")
    resize_tmpfs(disk, _used(disk) + rng.randrange(0, 40) * 4096)
    code = world.night(folder)
    return _night_with_space(world, folder, code, before, disk)


def _fill_temporary(world: World, seed: int, name: str, folder: Path) -> Result:
    """Run a night with too little space for Spark's temporary files."""
    disk = folder / "tmp" / "disk"
    mount_tmpfs(disk, seeded(seed, "disk", name).randrange(1, 60) * 4096)
    os.environ |= {"SPARK_LOCAL_DIRS": str(disk)}
    world.before("groups", folder / "warehouse")
    code = world.night(folder)
    return _night_with_space(world, folder, code, {}, disk)


def _night_with_space(
    world: World, folder: Path, code: int, before: dict[str, str], disk: Path
) -> Result:
    after, first = published(folder / "warehouse"), f"exit code {code}: {last_error(folder)}"
    if code not in {0, _TEMPORARY}:
        return crashed(f"full disk, exit code {code} instead of 1: {last_error(folder)}")
    if gone := [key for key, value in before.items() if after.get(key) != value]:
        return lost(f"{len(gone)} published files are missing or differ, as {gone[0]}; {first}")
    resize_tmpfs(disk, _LARGE)
    if code := world.night(folder):
        return lost(f"with space, the night failed with {code}: {last_error(folder)}; {first}")
    if differences := world.differences(folder):
        return lost(f"{len(differences)} differences: {differences[0]}; {first}")
    return survived(first[:200])


def _used(disk: Path) -> int:
    status = os.statvfs(disk)
    return (status.f_blocks - status.f_bfree) * status.f_frsize


def _damage(world: World, damage: str, seed: int, name: str, folder: Path) -> Result:
    """Damage one published file and run the night again; the registry has no entry yet."""
    rng = seeded(seed, "disk", name)
    warehouse = folder / "warehouse"
    world.before("promote", warehouse)
    names = sorted(path for path in warehouse.rglob("*") if _is_published(path))
    chosen = rng.choice(names)
    _DAMAGES[damage](chosen, rng)
    if chosen.is_relative_to(warehouse / "window"):  # nothing reads it unless pairs are built
        shutil.rmtree(warehouse / "pairs")
    where = f"{damage} {chosen.relative_to(warehouse)}"
    if damage == "altered":  # the size is unchanged: only a comparison of hashes finds it
        if start(["doctor", "--verify", *world.flags(folder)], folder).wait() == 0:
            return lost(f"{where}: `ulr doctor --verify` found nothing")
        chosen.unlink()  # as its message says
    if code := world.night(folder):
        return lost(f"{where}: the night after failed with {code}: {last_error(folder)}")
    if differences := world.differences(folder):
        return lost(f"{where}: {len(differences)} differences: {differences[0]}")
    return survived(where)


def _is_published(path: Path) -> bool:
    return path.is_file() and (path.name == "manifest.json" or path.suffix in {".parquet", ".txt"})


def _truncate(path: Path, rng: random.Random) -> None:
    os.truncate(path, rng.randrange(path.stat().st_size))


def _empty(path: Path, rng: random.Random) -> None:
    os.truncate(path, 0)


def _delete(path: Path, rng: random.Random) -> None:
    path.unlink()


def _alter(path: Path, rng: random.Random) -> None:
    content = bytearray(path.read_bytes())
    content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    path.write_bytes(content)


_DAMAGES: dict[str, Callable[[Path, random.Random], None]] = {
    "truncated": _truncate, "emptied": _empty, "deleted": _delete, "altered": _alter,
}  # fmt: skip
KIND = Kind("disk", prepared_world, faults)
