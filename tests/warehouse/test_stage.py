"""A stage publishes if its inputs or settings changed, and is skipped otherwise."""

from __future__ import annotations

import pyarrow as pa
import pytest

from ulr.errors import InvalidData
from ulr.warehouse.stage import fingerprint, fingerprint_of, publish_if_changed
from ulr.warehouse.tables import Warehouse

SIDE = [("quarantine", "dt=2026-01-01")]
SETTINGS = {"log": {"path": "here", "format": "json"}, "max_position": 10}


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(str(tmp_path))


def publish_rows(*transactions):
    """Write one row into every table, the main table last."""
    for transaction in reversed(transactions):
        transaction.write_table(pa.table({"x": [1]}))
        transaction.publish({"rows": 1})
    return "result"


def run(warehouse, write=publish_rows, **changes):
    arguments = {"inputs": [1], "settings": SETTINGS} | changes
    return publish_if_changed(warehouse, "groups", "dt=2026-01-01", write=write, **arguments)


def never(*_):
    pytest.fail("the stage was not skipped")


def test_an_unchanged_stage_is_skipped_unless_forced(warehouse):
    outcome, result = run(warehouse)
    assert (outcome.skipped, result) == (False, "result")
    again, no_result = run(warehouse, never)
    assert (again.skipped, again.manifest, no_result) == (True, outcome.manifest, None)
    assert not run(warehouse, force=True)[0].skipped


@pytest.mark.parametrize("changes", [{"inputs": [2]}, {"settings": {"max_position": 11}}])
def test_a_stage_runs_again_if_inputs_or_settings_change(warehouse, changes):
    run(warehouse)
    assert not run(warehouse, **changes)[0].skipped


def test_settings_outside_the_fingerprint_are_recorded_but_do_not_repeat_the_stage(warehouse):
    run(warehouse, not_in_fingerprint=["log.path"])
    assert warehouse.current("groups", "dt=2026-01-01").settings == SETTINGS
    moved = SETTINGS | {"log": {"path": "there", "format": "json"}}
    assert run(warehouse, never, settings=moved, not_in_fingerprint=["log.path"])[0].skipped
    other = SETTINGS | {"log": {"path": "here", "format": "csv"}}
    assert not run(warehouse, settings=other, not_in_fingerprint=["log.path"])[0].skipped


def test_fingerprints_depend_on_the_schema_version_but_not_on_the_release(monkeypatch):
    before = fingerprint_of(inputs=[1], settings={})
    monkeypatch.setattr("ulr.version.__version__", "9.9.9")
    assert fingerprint_of(inputs=[1], settings={}) == before
    monkeypatch.setattr("ulr.warehouse.stage.SCHEMA_VERSION", 99)
    assert fingerprint_of(inputs=[1], settings={}) != before


def test_a_stage_runs_again_if_its_side_table_is_of_another_run(warehouse):
    run(warehouse, side_tables=SIDE)
    assert run(warehouse, never, side_tables=SIDE)[0].skipped
    with warehouse.writing(*SIDE[0], "other") as other:
        other.publish({})
    assert not run(warehouse, side_tables=SIDE)[0].skipped


def test_a_side_table_published_before_a_failure_is_kept(warehouse):
    def refuse(_good, bad):
        bad.publish({"rows": 3})
        raise InvalidData("too many broken rows")

    with pytest.raises(InvalidData):
        run(warehouse, refuse, side_tables=SIDE)
    assert warehouse.current("groups", "dt=2026-01-01") is None
    assert warehouse.require(*SIDE[0]).counts == {"rows": 3}


def test_a_stage_that_does_not_publish_raises(warehouse):
    with pytest.raises(RuntimeError, match="without publishing"):
        run(warehouse, lambda _: None)


def test_equal_values_have_equal_fingerprints():
    assert fingerprint({"a": 1, "b": [2]}) == fingerprint({"b": [2], "a": 1})
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
