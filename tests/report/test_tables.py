"""What a page takes from the warehouse: the tables of this run, and rows that were refused."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tests.support.report_samples import HOSTILE, curve, diagnostics, joint
from ulr.clicklog.quarantine import LENGTH, examples_of
from ulr.errors import UserError
from ulr.report.collect import days_of, propensity_parts
from ulr.report.facts import NIGHT, Facts
from ulr.report.store import keep_report, kept_facts, latest_night, report_names, write_page
from ulr.warehouse.schema import (
    diagnostics_schema,
    joint_propensities_schema,
    propensities_schema,
    quarantine_schema,
)
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

DATES = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]


def publish(warehouse, table, partition, rows, schema, *, counts=None, **origin):
    with warehouse.writing(table, partition, "x", **origin) as draft:
        if rows:
            content = pa.Table.from_pylist(rows, schema=schema)
            Storage(draft.url).write_table(content, "part-00000.parquet")
        draft.publish(counts or {})


@pytest.fixture
def warehouse(tmp_path):
    return Warehouse(str(tmp_path))


def test_propensities_of_another_window_are_not_shown_as_this_one(warehouse):
    inputs = {f"dt={date}": "f" for date in DATES}
    for table, rows, schema in (
        ("propensities", curve(), propensities_schema),
        ("joint_propensities", joint(), joint_propensities_schema),
        ("diagnostics", diagnostics(), diagnostics_schema),
    ):
        publish(warehouse, table, "", rows, schema, inputs=inputs)
    found, missing = propensity_parts(warehouse, DATES)
    assert [len(found[n]) for n in ("curve", "joint", "diagnostics")] == [
        len(curve()), len(joint()), len(diagnostics())
    ]  # fmt: skip
    assert missing == {}
    found, missing = propensity_parts(warehouse, DATES[:1])
    assert found == {}
    assert "another window, 2026-01-01 to 2026-01-02" in missing["curve"]


def refused(reason, number, **columns):
    row = dict.fromkeys(quarantine_schema.names)
    return row | {"reason": reason, "source": f"log/dt=x/part-{number}.parquet"} | columns


def test_a_few_rows_of_every_reason_are_shown_the_latest_first_and_none_too_long(warehouse):
    old = [refused("bad_type", n, raw=f"{n}" * 500) for n in range(9)]
    new = [refused("null_query_id", 0, session_id=f"s{n}") for n in range(5)]
    new += [refused("empty_page", 0, query_id=HOSTILE, doc_ids=[], clicks=[])]
    for date, rows in zip(DATES, (old, new), strict=True):
        counts = {f"bad:{r['reason']}": 1 for r in rows}
        publish(warehouse, "quarantine", f"dt={date}", rows, quarantine_schema, counts=counts)
    found = examples_of(warehouse, [str(date) for date in DATES])
    assert [e["reason"] for e in found] == ["bad_type"] * 2 + ["empty_page"] + ["null_query_id"] * 2
    assert {e["date"] for e in found if e["reason"] == "bad_type"} == {"2026-01-01"}
    assert all(len(e["row"]) <= LENGTH + 2 for e in found)
    assert HOSTILE.split('"')[0] in found[2]["row"]
    assert found[0]["source"] == "dt=x/part-0.parquet"


def test_a_day_that_was_refused_counts_by_its_quarantine(warehouse):
    publish(warehouse, "groups", "dt=2026-01-01", [], None, counts={"pages": 7})
    publish(warehouse, "quarantine", "dt=2026-01-01", [], None, counts={"pages": 8})
    publish(warehouse, "quarantine", "dt=2026-01-02", [], None, counts={"bad:empty_page": 3})
    assert days_of(warehouse, [*DATES, dt.date(2026, 1, 3)]) == [
        {"date": "2026-01-01", "pages": 7}, {"date": "2026-01-02", "bad:empty_page": 3}
    ]  # fmt: skip


def test_facts_are_kept_by_name_and_a_name_that_is_not_there_lists_those_that_are(tmp_path):
    storage = Storage(str(tmp_path))
    with pytest.raises(UserError, match="`ulr nightly` makes the first"):
        latest_night(storage)
    for name in ("2026-01-02", "2026-01-10"):
        made = keep_report(storage, Facts(kind=NIGHT, name=name))
    assert report_names(storage) == ["2026-01-02", "2026-01-10"]
    assert latest_night(storage) == "2026-01-10"
    assert write_page(storage, kept_facts(storage, "2026-01-10")) == made
    for name in ("2026-01-09", "../secret", ""):
        with pytest.raises(UserError, match="there is 2026-01-02, 2026-01-10"):
            kept_facts(storage, name)
