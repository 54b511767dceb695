"""A temporary warehouse and the local engine: where the notebook's functions run the stages."""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.engine.local.engine import LocalEngine
from ulr.warehouse.tables import Warehouse

ROW_GROUP = 65_536
# What worker processes need; imported by the process that they are forked from.
_PRELOAD = (
    "ulr.evaluation.tasks",
    "ulr.groups.tasks",
    "ulr.pairs.tasks",
    "ulr.propensity.tasks",
    "ulr.training.distributed.driver",
    "ulr.kernels.loaded",
)


@dataclass(frozen=True)
class Workspace:
    """The engine of this process, and a folder for one call."""

    engine: LocalEngine
    folder: Path

    @property
    def warehouse(self) -> Warehouse:
        """The warehouse of the call."""
        return Warehouse(str(self.folder / "warehouse"))

    def part(self, name: str) -> Workspace:
        """Return a workspace in a folder of this one."""
        return Workspace(self.engine, self.folder / name)

    def write(self, table: pa.Table, *path: str) -> str:
        """Write a Parquet file below a folder of the call, and return the folder's path."""
        file = self.folder.joinpath(*path)
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, file, row_group_size=ROW_GROUP, compression="lz4")
        return str(self.folder / path[0])


@contextlib.contextmanager
def workspace() -> Iterator[Workspace]:
    """Yield a workspace, and remove its folder at the end."""
    with tempfile.TemporaryDirectory(prefix="ulr-") as folder:
        yield Workspace(_engine(), Path(folder))


@lru_cache
def _engine() -> LocalEngine:
    return LocalEngine(preload=_PRELOAD)
