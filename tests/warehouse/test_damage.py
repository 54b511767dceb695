"""Damaged files are found, named and rebuilt."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from ulr.errors import DamagedTable, UserError
from ulr.warehouse.stage import publish_changed_partitions, publish_if_changed
from ulr.warehouse.tables import Warehouse

DAY = "dt=2026-01-01"


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(str(tmp_path))


def build(warehouse: Warehouse):
    """Publish two rows of groups and one of quarantine, unless they are unchanged."""

    def write(groups, quarantine):
        quarantine.write_table(pa.table({"x": [0]}))
        quarantine.publish({"rows": 1})
        groups.write_table(pa.table({"x": [1, 2]}))
        groups.publish({"rows": 2})

    outcome, _ = publish_if_changed(
        warehouse, "groups", DAY, inputs=[1], settings={}, write=write,
        side_tables=[("quarantine", DAY)],
    )  # fmt: skip
    return outcome


def file_of(warehouse: Warehouse, table: str = "groups") -> Path:
    (path,) = warehouse.files(table, DAY)
    return Path(path)


def truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


DAMAGES = [(Path.unlink, "is missing"), (truncate, "bytes instead of"), (empty, "has 0 bytes")]


@pytest.mark.parametrize(("damage", "message"), DAMAGES)
@pytest.mark.parametrize("table", ["groups", "quarantine"])
def test_a_missing_or_short_file_is_named_and_its_stage_rebuilds_it(
    warehouse, table, damage, message
):
    assert not build(warehouse).skipped
    assert build(warehouse).skipped
    path = file_of(warehouse, table)
    damage(path)
    with pytest.raises(DamagedTable, match=f"{path.name} .*{message}.*; run `ulr groups --date"):
        warehouse.files(table, DAY)
    outcome = build(warehouse)
    assert not outcome.skipped
    assert path.name in outcome.damage
    assert message in outcome.damage
    assert warehouse.read("groups", DAY)["x"].to_pylist() == [1, 2]
    again = build(warehouse)
    assert (again.skipped, again.damage) == (True, "")


def test_an_altered_file_of_the_same_size_is_found_by_its_hash(warehouse):
    manifest = build(warehouse).manifest
    flip(file_of(warehouse))
    assert warehouse.damage(manifest) == []
    (message,) = warehouse.damage(manifest, hashes=True)
    assert "has been altered" in message


def test_a_small_file_is_read_only_if_its_hash_is_the_published_one(warehouse):
    manifest = build(warehouse).manifest
    path = file_of(warehouse)
    content = path.read_bytes()
    assert warehouse.read_file(manifest, path.name) == content
    flip(path)
    with pytest.raises(DamagedTable, match="has been altered"):
        warehouse.read_file(manifest, path.name)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"table": "groups"}', "\x00" * 300])
def test_a_damaged_manifest_is_named_and_its_stage_publishes_again(warehouse, tmp_path, content):
    build(warehouse)
    path = tmp_path / "groups" / DAY / "manifest.json"
    path.write_text(content)
    assert warehouse.current("groups", DAY) is None
    with pytest.raises(DamagedTable, match=r"manifest.json is damaged; run `ulr groups --date"):
        warehouse.files("groups", DAY)
    assert not build(warehouse).skipped
    assert warehouse.read("groups", DAY)["x"].to_pylist() == [1, 2]
    assert build(warehouse).skipped


def test_a_manifest_of_a_newer_version_is_refused_and_kept(warehouse, tmp_path):
    build(warehouse)
    path = tmp_path / "groups" / DAY / "manifest.json"
    newer = json.loads(path.read_text()) | {"manifest_version": 99, "version": "9.0"}
    path.write_text(json.dumps(newer))
    with pytest.raises(UserError, match=r"published by ulr 9\.0, which is newer"):
        build(warehouse)
    assert json.loads(path.read_text()) == newer


def test_partitions_of_one_job_are_rebuilt_if_one_of_their_files_is_damaged(warehouse):
    written = []

    def write(transactions):
        written.append(sorted(transactions))
        for (transaction,) in transactions.values():
            transaction.write_table(pa.table({"x": [1]}))
            transaction.publish({})

    days = {DAY: 1, "dt=2026-01-02": 2}
    for _ in range(2):
        publish_changed_partitions(warehouse, ["swap_counts"], days, write=write)
    file_of(warehouse, "swap_counts").unlink()
    publish_changed_partitions(warehouse, ["swap_counts"], days, write=write)
    assert written == [sorted(days), [DAY]]


def test_the_manifest_records_size_and_hash_of_every_file_and_no_password(warehouse):
    secret = "s3://key:sesame@bucket/log?secret_key=sesame"
    with warehouse.writing(
        "models", "method=joint", "f", inputs={"log": [secret]}, settings={"log": {"path": secret}}
    ) as transaction:
        transaction.write_table(pa.table({"x": [1]}))
        manifest = transaction.publish({})
    stored = warehouse.storage.read_text("models/method=joint/manifest.json")
    assert "sesame" not in stored
    (file,) = manifest.files
    path = Path(warehouse.files("models", "method=joint")[0])
    assert (file.name, file.size) == (path.name, path.stat().st_size)
    assert warehouse.current("models", "method=joint").files == [file]


def test_a_lost_folder_is_rebuilt(warehouse):
    build(warehouse)
    shutil.rmtree(file_of(warehouse).parent)
    assert "is missing" in build(warehouse).damage
