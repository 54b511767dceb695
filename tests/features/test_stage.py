"""A window is gathered once, shared, and gathered again when its inputs change."""

import datetime as dt
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.support.pair_inputs import FEATURES, GROUPS, features_of, gather, write_window_inputs
from ulr.features import tasks
from ulr.features.files import find_features
from ulr.features.join import join_features
from ulr.features.stage import WindowInputs, gather_window, repair_window
from ulr.features.tasks import write_window
from ulr.warehouse.overlay import OverlayWarehouse
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

DATES = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]


def read_all(window):
    rows = [row for file in window.files for row in pq.read_table(file).to_pylist()]
    return sorted(rows, key=lambda row: row["query_id"])


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("filter_from", [0, 1 << 40])
def test_tasks_gather_the_window_of_one_process(engine, tmp_path, partitions, filter_from):
    inputs, groups = write_window_inputs(tmp_path)
    more = features_of([(f"other {n}", "x") for n in range(50)])
    Storage(inputs.features.url).write_table(more, "other.parquet")
    files = tasks.WindowFiles(inputs.groups_url, inputs.groups, find_features(inputs.features.url))
    url = f"{tmp_path}/window"
    counts = write_window(engine, files, url=url, partitions=partitions, filter_from=filter_from)
    want = join_features(groups, FEATURES)
    window = gather(engine, inputs, f"{tmp_path}/again", partitions)
    assert read_all(window) == want.to_pylist()
    assert [f.size for f in Storage(url).files()] == [f.size for f in Storage(window.url).files()]
    assert counts["queries"] == want.num_rows
    assert counts["bytes"] == sum(file.size for file in Storage(url).files())


def test_the_first_of_several_feature_rows_is_that_of_the_first_file(engine, tmp_path, monkeypatch):
    inputs, _ = write_window_inputs(tmp_path)
    changed = [row | {"features": [9.0, 9.0]} for row in FEATURES.to_pylist()]
    later = FEATURES.from_pylist(changed, FEATURES.schema)
    Storage(inputs.features.url).write_table(later, "zzz.parquet", row_group=2)
    monkeypatch.setattr("ulr.features.files._PART_BYTES", 500)  # several parts per file
    files = tasks.WindowFiles(inputs.groups_url, inputs.groups, find_features(inputs.features.url))
    assert len(files.features.parts()) > 3
    window = gather(engine, files, f"{tmp_path}/window", 2)
    want = join_features(GROUPS, FEATURES).to_pylist()
    assert [r["features"] for r in read_all(window)] == [r["features"] for r in want]
    assert sum(r["duplicates"] for r in read_all(window)) == FEATURES.num_rows


@pytest.fixture
def published(engine, tmp_path):
    """A warehouse with the groups of two dates, and features."""
    warehouse = Warehouse(f"{tmp_path}/warehouse")
    for date in DATES:
        publish(warehouse, date, "a")
    Storage(f"{tmp_path}/features").write_table(FEATURES, "one.parquet")
    return warehouse, find_features(f"{tmp_path}/features")


def publish(warehouse, date, fingerprint):
    with warehouse.writing("groups", f"dt={date}", fingerprint) as groups:
        groups.write_table(GROUPS)
        groups.publish({})


def test_a_window_is_gathered_once_for_both_uses_and_for_overlays(engine, published, monkeypatch):
    warehouse, features = published
    gathered = []

    def gather_and_count(*args, **options):
        gathered.append(1)
        return write_window(*args, **options)

    monkeypatch.setattr("ulr.features.stage.write_window", gather_and_count)
    first = gather_window(engine, WindowInputs(warehouse, DATES, features, partitions=2))
    overlay = OverlayWarehouse(warehouse, "reruns", "r")
    same = [
        WindowInputs(warehouse, DATES, features, "test"),
        WindowInputs(overlay, DATES, features),
        WindowInputs(overlay, DATES, features, partitions=2),
    ]
    assert [gather_window(None, inputs).files for inputs in same] == [first.files] * 3
    assert len(gathered) == 1
    other = gather_window(engine, WindowInputs(overlay, DATES[:1], features))
    assert len(gathered) == 2
    assert overlay.storage.root in other.files[0]
    assert warehouse.current("window", "use=train").inputs["groups"].keys() == {
        f"dt={date}" for date in DATES
    }


def test_a_window_is_gathered_again_if_groups_features_or_partitions_change(engine, published):
    warehouse, features = published
    before = gather_window(engine, WindowInputs(warehouse, DATES, features))
    sessions = sum(sum(row["counts"]) for row in read_all(before))
    publish(warehouse, DATES[0], "b")
    after = gather_window(engine, WindowInputs(warehouse, DATES, features))
    assert after.files != before.files
    assert sum(sum(row["counts"]) for row in read_all(after)) == sessions
    Storage(features.url).write_table(FEATURES.slice(0, 1), "two.parquet")
    changed = WindowInputs(warehouse, DATES, find_features(features.url))
    assert sum(row["duplicates"] for row in read_all(gather_window(engine, changed))) == 1
    split = WindowInputs(warehouse, DATES, features, partitions=3)
    assert len(gather_window(engine, split).files) > 1


def test_a_window_that_was_deleted_is_gathered_again(engine, published):
    warehouse, features = published
    inputs = WindowInputs(warehouse, DATES, features)
    rows = read_all(gather_window(engine, inputs))
    warehouse.storage.delete("window")
    assert read_all(gather_window(engine, inputs)) == rows


@pytest.mark.parametrize("repair", [gather_window, repair_window])
def test_a_damaged_window_is_gathered_again(engine, published, repair):
    warehouse, features = published
    inputs = WindowInputs(warehouse, DATES, features)
    window = gather_window(engine, inputs)
    rows = read_all(window)
    Path(window.files[0]).write_bytes(b"")
    repair(engine, inputs)
    again = warehouse.require("window", "use=train")
    assert warehouse.damage(again) == []
    assert read_all(gather_window(engine, inputs)) == rows
    repair_window(None, inputs)  # without damage nothing runs
