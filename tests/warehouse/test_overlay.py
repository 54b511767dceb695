"""An overlay reads shared tables from its base and stores the others itself."""

import pyarrow as pa
import pytest

from ulr.errors import UserError
from ulr.warehouse.overlay import PAIRS, OverlayWarehouse, check_name
from ulr.warehouse.tables import Warehouse


def publish(warehouse, table, partition, value):
    with warehouse.writing(table, partition, "x") as transaction:
        transaction.write_table(pa.table({"x": [value]}))
        transaction.publish({})


def value(warehouse, table, partition):
    return warehouse.read(table, partition)["x"].to_pylist()


def test_tables_are_read_from_the_warehouse_that_owns_them(tmp_path):
    base = Warehouse(str(tmp_path))
    rerun = OverlayWarehouse(base, "reruns", "a")
    variant = OverlayWarehouse(rerun, "variants", "b", shared=PAIRS)
    publish(base, "groups", "dt=2026-01-01", 1)
    publish(base, "pairs", "method=joint", 2)
    publish(rerun, "pairs", "method=joint", 3)
    publish(rerun, "metrics", "stage=pairs-method=joint", 4)
    assert variant.partitions("groups") == ["dt=2026-01-01"]
    assert value(variant, "groups", "dt=2026-01-01") == [1]
    assert value(base, "pairs", "method=joint") == [2]
    assert value(variant, "pairs", "method=joint") == [3]
    assert value(variant, "metrics", "stage=pairs-method=joint") == [4]
    assert variant.current("models", "method=joint") is None
    assert variant.owns("models")
    assert not variant.owns("pairs")


def test_a_missing_table_is_reported_with_the_warehouse_that_should_hold_it(tmp_path):
    overlay = OverlayWarehouse(Warehouse(str(tmp_path)), "reruns", "a")
    with pytest.raises(UserError, match=f"{tmp_path} has no groups dt=2026-01-01"):
        overlay.files("groups", "dt=2026-01-01")
    with pytest.raises(UserError, match=f"{tmp_path}/reruns/a has no pairs method=joint"):
        overlay.require("pairs", "method=joint")


@pytest.mark.parametrize("name", ["", "a/b", ".hidden", "a b"])
def test_names_that_cannot_be_folders_are_refused(name):
    with pytest.raises(UserError, match="--name"):
        check_name("--name", name)
    assert check_name("--name", "v1.2-b_c") == "v1.2-b_c"
