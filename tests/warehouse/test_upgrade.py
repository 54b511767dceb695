"""Tables of earlier versions are read or converted, never lost.

tests/support/published_0.1.0.tar.gz holds a small warehouse of two dates, and its features, as the
version wrote them whose manifests list files without sizes and hashes. The log is not in it.
"""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.table_hashes import table_hashes
from ulr.cli.main import main
from ulr.errors import DamagedTable, UserError
from ulr.groups.levels import CLICKS, one_level, window_levels, with_levels
from ulr.models.text import finished_model
from ulr.warehouse import migrate
from ulr.warehouse.tables import Warehouse

ARCHIVE = Path(__file__).parents[1] / "support" / "published_0.1.0.tar.gz"
CURVES = ("propensities", "joint_propensities")
DAYS = ("dt=2026-01-01", "dt=2026-01-02")
WINDOW = ["--date", "2026-01-01..2026-01-02"]
SETTINGS = {
    "log.path": "expired", "features.path": "features", "warehouse.path": "warehouse",
    "groups.partitions": 2, "pairs.partitions": 2, "pairs.test_fraction": 0.3,
    "train.num_iterations": 3, "lightgbm.num_leaves": 4, "lightgbm.num_threads": 1,
    "mlflow.live": False, "pairs.method": "joint", "propensities.depth": "estimated",
}  # fmt: skip
FLAGS = [flag for key, value in SETTINGS.items() for flag in ("--set", f"{key}={value}")]


@pytest.fixture
def old(tmp_path, monkeypatch):
    """Return the warehouse that the earlier version has published, in the current folder."""
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return Warehouse(str(tmp_path / "warehouse"))


def test_tables_of_the_version_before_are_read(old):
    for day in DAYS:
        manifest = old.require("groups", day)
        assert [(file.size, file.sha256) for file in manifest.files] == [(None, None)] * 2
        assert manifest.counts["pages"] == 1500
        assert old.read("groups", day).num_rows == manifest.counts["groups"]
    assert old.damage(old.require("models", "method=joint"), hashes=True) == []


def test_old_groups_are_those_of_clicks_and_are_padded_to_the_levels_of_a_window(old):
    assert window_levels(old, [day.removeprefix("dt=") for day in DAYS]) == CLICKS
    groups = old.read("groups", DAYS[0])
    levels = (*CLICKS, "purchase")
    padded = with_levels(groups, CLICKS, levels)
    (batch,) = padded.combine_chunks().to_batches()
    assert one_level(batch, levels)["patterns"].equals(groups["patterns"].combine_chunks())
    purchases = one_level(batch, levels, levels[1:])["patterns"].flatten().to_numpy()
    assert purchases.size > 0
    assert not purchases.any()


def test_a_window_of_old_groups_without_its_log_gives_the_same_tables(old, capsys):
    root, method = Path(old.storage.root), "method=joint"
    hashes, model = table_hashes(root), Path(old.files("models", method)[0]).read_bytes()
    curves = {table: old.read(table).drop_columns("note") for table in CURVES}
    pairs = old.read("pairs", method)
    for stage in ("propensities", "pairs"):
        assert main([stage, *WINDOW, *FLAGS, "--force"]) == 0, capsys.readouterr().err
    assert main(["train", *FLAGS, "--force"]) == 0
    # Notes have other words, diagnostics other last bits, and the others more columns.
    for table, before in curves.items():
        assert old.read(table).select(before.column_names).equals(before)
    assert old.read("pairs", method).select(pairs.column_names).equals(pairs)
    # Models were not finished: they had no objective, and thresholds of more digits.
    trained = Path(old.files("models", method)[0]).read_text()
    assert trained == finished_model(model.decode())
    assert old.require("pairs", method).files[0].sha256
    rewritten = (*CURVES, "diagnostics", "pairs", "metrics/stage=pairs")
    kept = {name: sha for name, sha in hashes.items() if not name.startswith(rewritten)}
    now = table_hashes(root)
    assert kept
    assert {name: now[name] for name in kept} == kept


def test_the_groups_of_a_date_stay_if_its_log_has_expired(old, capsys):
    assert main(["groups", "--date", "2026-01-01", *FLAGS]) == 2
    assert "expired" in capsys.readouterr().err
    assert old.require("groups", DAYS[0]).counts["pages"] == 1500


def test_a_missing_or_empty_file_of_an_old_version_is_found(old):
    first, second = map(Path, old.files("groups", DAYS[0]))
    first.write_bytes(b"")
    with pytest.raises(DamagedTable, match=f"{first.name} is empty"):
        old.files("groups", DAYS[0])
    first.unlink()
    second.unlink()
    with pytest.raises(DamagedTable, match="is missing"):
        old.files("groups", DAYS[0])


def set_schema_version(warehouse: Warehouse, where: str, version: int) -> None:
    path = Path(warehouse.storage.root) / where / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"schema_version": version}))


def test_groups_of_an_earlier_schema_are_rewritten_once_when_they_are_read(old, monkeypatch):
    """Version 0 called the column `counts` by another name."""
    expected = old.read("groups", DAYS[0])
    for path in old.files("groups", DAYS[0]):
        names = ["sessions" if n == "counts" else n for n in expected.column_names]
        pq.write_table(pq.read_table(path).rename_columns(names), path)
    set_schema_version(old, f"groups/{DAYS[0]}", 0)
    steps = []

    def rename(rows: pa.Table) -> pa.Table:
        steps.append(rows.num_rows)
        return rows.rename_columns(expected.column_names)

    monkeypatch.setitem(migrate.DAILY["groups"], 0, rename)
    before = old.current("groups", DAYS[0])
    for _ in range(2):
        assert old.read("groups", DAYS[0]).equals(expected)
    assert sum(steps) == expected.num_rows
    after = old.require("groups", DAYS[0])
    assert (after.fingerprint, after.counts) == (before.fingerprint, before.counts)
    assert after.schema_version == 1


def test_groups_that_a_new_schema_leaves_unchanged_are_read_as_they_are(old):
    set_schema_version(old, f"groups/{DAYS[0]}", 0)
    before = old.files("groups", DAYS[0])
    assert old.require("groups", DAYS[0]).schema_version == 0
    assert old.files("groups", DAYS[0]) == before


def test_a_derived_table_of_an_earlier_schema_is_built_again_and_a_newer_one_refused(old):
    set_schema_version(old, "pairs/method=joint", 0)
    with pytest.raises(UserError, match="earlier schema; run its stage"):
        old.files("pairs", "method=joint")
    set_schema_version(old, "pairs/method=joint", 9)
    with pytest.raises(UserError, match="schema version 9 of ulr"):
        old.files("pairs", "method=joint")
