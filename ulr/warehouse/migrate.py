"""Tables of an earlier schema version.

The log of a date may have expired, so a new schema version must not make its groups unreadable. The
daily tables are rewritten when they are first read. All other tables are built again by their
stages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from ulr.errors import UserError
from ulr.version import __version__
from ulr.warehouse.manifest import Manifest
from ulr.warehouse.schema import SCHEMA_VERSION
from ulr.warehouse.table_files import TableFiles

if TYPE_CHECKING:
    from ulr.warehouse.tables import Warehouse

Step = Callable[[pa.Table], pa.Table]

# Tables of single dates, which cannot be built again without the log, and how to convert the rows
# of a file from schema version n to n + 1. A version that leaves a table unchanged has no step.
DAILY: dict[str, dict[int, Step]] = {"groups": {}, "quarantine": {}, "logged_features": {}}


def migrated(warehouse: Warehouse, manifest: Manifest) -> Manifest:
    """Return a version of a partition in the current schema; rewrite it if its table has changed.

    Raises UserError if its stage has to build it again, or if a newer version has written it.
    """
    table, version = manifest.table, manifest.schema_version
    if version == SCHEMA_VERSION:
        return manifest
    name = f"{table} {manifest.partition}".strip()
    if version > SCHEMA_VERSION:
        raise UserError(
            f"{name} has the schema version {version} of ulr {manifest.version}, this is "
            f"{__version__} with version {SCHEMA_VERSION}; use that version or a later one"
        )
    if table not in DAILY:
        raise UserError(
            f"{name} was published by ulr {manifest.version} in an earlier schema; run its stage "
            "to build it again"
        )
    steps = [DAILY[table][n] for n in range(version, SCHEMA_VERSION) if n in DAILY[table]]
    return _rewrite(warehouse, manifest, steps) if steps else manifest


def _rewrite(warehouse: Warehouse, manifest: Manifest, steps: list[Step]) -> Manifest:
    """Publish a partition again, file by file; its fingerprint stays."""
    home = next(w for w in warehouse.layers() if w.owns(manifest.table, manifest.partition))
    with home.writing(
        manifest.table, manifest.partition, manifest.fingerprint,
        inputs=manifest.inputs, settings=manifest.settings,
    ) as transaction:  # fmt: skip
        for path in home.paths(manifest):
            rows = pq.read_table(path, filesystem=home.storage.fs, partitioning=None)
            for step in steps:
                rows = step(rows)
            TableFiles(transaction.url).write_table(rows, path.rpartition("/")[2])
        return transaction.publish(manifest.counts)
