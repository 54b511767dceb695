"""All files of a warehouse are compared with their manifests."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from ulr.cli.doctor import places
from ulr.cli.doctor.checks import ERROR, OK
from ulr.warehouse.overlay import OverlayWarehouse
from ulr.warehouse.tables import Warehouse
from ulr.warehouse.verify import verify


@pytest.fixture
def warehouse(tmp_path):
    base = Warehouse(str(tmp_path))
    rerun = OverlayWarehouse(base, "reruns", "a")
    for owner, table, partition in (
        (base, "groups", "dt=2026-01-01"), (base, "scores", ""), (rerun, "pairs", "method=joint"),
    ):  # fmt: skip
        with owner.writing(table, partition, "f") as transaction:
            transaction.write_table(pa.table({"x": [1]}))
            transaction.publish({"rows": 1})
    return base


def test_an_intact_warehouse_passes(warehouse):
    result = verify(warehouse.storage)
    assert (result.partitions, result.files, result.damage) == (3, 3, [])
    assert places.tables_are_intact(warehouse.storage.url).verdict == OK


def test_every_damaged_file_is_named_also_in_re_runs(warehouse, tmp_path):
    for path in tmp_path.rglob("part-00000.parquet"):
        content = bytearray(path.read_bytes())
        content[10] ^= 255
        path.write_bytes(content)
    (tmp_path / "scores" / "manifest.json").write_text("")
    finding = places.tables_are_intact(warehouse.storage.url)
    assert finding.verdict == ERROR
    assert "3 are damaged" in finding.message
    for name in ("groups/dt=2026-01-01", "reruns/a/pairs/method=joint", "scores/manifest.json"):
        assert name in finding.message


def test_a_warehouse_that_does_not_exist_has_no_tables(tmp_path):
    assert verify(Warehouse(str(Path(tmp_path) / "absent")).storage).partitions == 0
