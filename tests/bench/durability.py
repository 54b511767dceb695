"""What it costs to force published files to the disk: publication with fsync against without.

    python -m tests.bench.durability [--quick]

Both run alternately on the same disk, and the medians are compared: a whole night of a small log,
the publication of its tables alone, and of one large table. Without: os.fsync does nothing.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

import numpy as np
import pyarrow as pa

from tests.bench.faults.world import DATE, World, prepared_world, start
from ulr.warehouse.table_files import TableFiles
from ulr.warehouse.tables import Warehouse

_TABLES_OF_A_NIGHT = 12
_WITHOUT = "import os\nos.fsync = os.fdatasync = lambda descriptor: None\n"


def publish(folder: Path, tables: int, files: int, rows: int) -> None:
    """Publish tables of some files with random numbers."""
    warehouse = Warehouse(str(folder))
    content = pa.table({"value": np.random.default_rng(1).random(rows)})
    for n in range(tables):
        with warehouse.writing("scores", f"n={n}", "f") as transaction:
            for file in range(files):
                TableFiles(transaction.url).write_table(content, f"part-{file:05d}.parquet")
            transaction.publish({"rows": rows * files})


def compare(name: str, run: Callable[[Path, bool], None], repeats: int) -> None:
    """Measure `run(folder, durable)` alternately with and without, and print the ratio."""
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for _ in range(repeats):
        for durable in (True, False):
            with tempfile.TemporaryDirectory(prefix="ulr-durability-") as folder:
                os.sync()  # no measurement pays for the writes of the one before
                started = time.perf_counter()
                run(Path(folder), durable)
                seconds[durable].append(time.perf_counter() - started)
    durable, fast = (statistics.median(seconds[kind]) for kind in (True, False))
    print(f"{name}: {durable:.2f} s with fsync, {fast:.2f} s without, ratio {durable / fast:.2f}",
          flush=True)  # fmt: skip


def publication(tables: int, files: int, rows: int) -> Callable[[Path, bool], None]:
    """Return a function that publishes with or without fsync."""

    def run(folder: Path, durable: bool) -> None:
        if durable:
            publish(folder, tables, files, rows)
        else:
            with mock.patch("os.fsync", return_value=None):
                publish(folder, tables, files, rows)

    return run


def night(world: World) -> Callable[[Path, bool], None]:
    """Return a function that runs a night, whose processes all have fsync or none has."""

    def run(folder: Path, durable: bool) -> None:
        (folder / "sitecustomize.py").write_text("" if durable else _WITHOUT)
        command = ["nightly", "--date", DATE, *world.flags(folder)]
        if code := start(command, folder, first=[str(folder)]).wait():
            raise RuntimeError(f"the night failed with exit code {code}")

    return run


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer repeats, a smaller table")
    quick = parser.parse_args().quick
    files, rows = (2, 500_000) if quick else (8, 4_000_000)
    megabytes = files * rows * 8 / 1e6
    repeats = 3 if quick else 7
    compare(f"{_TABLES_OF_A_NIGHT} small tables", publication(_TABLES_OF_A_NIGHT, 1, 500), repeats)
    compare(f"a table of {megabytes:.0f} MB", publication(1, files, rows), repeats)
    with prepared_world(Path()) as world:
        compare("a small night", night(world), 1 if quick else 3)


if __name__ == "__main__":
    main()
