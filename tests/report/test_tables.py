"""The tables of a run, examples of quarantined rows, and stored facts."""

from __future__ import annotations

import datetime as dt

import pyarrow as pa
import pytest

from tests.support.report_samples import HOSTILE, curve, diagnostics, joint
from ulr.clicklog.quarantine import LENGTH, examples_of
from ulr.errors import UserError
from ulr.report.facts import NIGHT, Facts
from ulr.report.store import latest_night, load_facts, report_names, store_report, write_page
from ulr.report.tables import days_of, propensity_parts, read_truth
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


def test_propensities_of_another_window_are_not_used(warehouse):
    inputs = {f"dt={date}": "f" for date in DATES}
    for table, rows, schema in (
        ("propensities", curve(), propensities_schema),
        ("joint_propensities", joint(), joint_propensities_schema),
        ("diagnostics", diagnostics(), diagnostics_schema),
    ):
        publish(warehouse, table, "", rows, schema, inputs=inputs)
    parts, missing = propensity_parts(warehouse, DATES)
    assert [len(parts[n]) for n in ("curve", "joint", "diagnostics")] == [
        len(curve()), len(joint()), len(diagnostics())
    ]  # fmt: skip
    assert missing == {}
    parts, missing = propensity_parts(warehouse, DATES[:1])
    assert parts == {}
    assert "another window, 2026-01-01 to 2026-01-02" in missing["curve"]


def quarantined(reason, number, **columns):
    row = dict.fromkeys(quarantine_schema.names)
    return row | {"reason": reason, "source": f"log/dt=x/part-{number}.parquet"} | columns


def test_every_reason_has_a_few_short_examples_from_the_latest_dates(warehouse):
    old = [quarantined("bad_type", n, raw=f"{n}" * 500) for n in range(9)]
    new = [quarantined("null_query_id", 0, session_id=f"s{n}") for n in range(5)]
    new += [quarantined("empty_page", 0, query_id=HOSTILE, doc_ids=[], clicks=[])]
    for date, rows in zip(DATES, (old, new), strict=True):
        counts = {f"bad:{r['reason']}": 1 for r in rows}
        publish(warehouse, "quarantine", f"dt={date}", rows, quarantine_schema, counts=counts)
    examples = examples_of(warehouse, [str(date) for date in DATES])
    assert [e["reason"] for e in examples] == ["bad_type"] * 2 + ["empty_page"] + [
        "null_query_id"
    ] * 2
    assert {e["date"] for e in examples if e["reason"] == "bad_type"} == {"2026-01-01"}
    assert all(len(e["row"]) <= LENGTH + 2 for e in examples)
    assert HOSTILE.split('"')[0] in examples[2]["row"]
    assert examples[0]["source"] == "dt=x/part-0.parquet"


def test_a_rejected_day_has_the_counts_of_its_quarantine(warehouse):
    publish(warehouse, "groups", "dt=2026-01-01", [], None, counts={"pages": 7})
    publish(warehouse, "quarantine", "dt=2026-01-01", [], None, counts={"pages": 8})
    publish(warehouse, "quarantine", "dt=2026-01-02", [], None, counts={"bad:empty_page": 3})
    assert days_of(warehouse, [*DATES, dt.date(2026, 1, 3)]) == [
        {"date": "2026-01-01", "pages": 7}, {"date": "2026-01-02", "bad:empty_page": 3}
    ]  # fmt: skip


def test_facts_are_stored_by_name_and_an_unknown_name_lists_the_known_ones(tmp_path):
    storage = Storage(str(tmp_path))
    with pytest.raises(UserError, match="`ulr nightly` writes the first"):
        latest_night(storage)
    for name in ("2026-01-02", "2026-01-10"):
        content = store_report(storage, Facts(kind=NIGHT, name=name))
    assert report_names(storage) == ["2026-01-02", "2026-01-10"]
    assert latest_night(storage) == "2026-01-10"
    assert write_page(storage, load_facts(storage, "2026-01-10")) == content
    for name in ("2026-01-09", "../secret", ""):
        with pytest.raises(UserError, match="available: 2026-01-02, 2026-01-10"):
            load_facts(storage, name)


def test_a_truth_file_that_is_no_truth_is_one_clear_error(tmp_path):
    (tmp_path / "x.parquet").write_text("no Parquet")
    for name in ("x.parquet", "absent.parquet"):
        with pytest.raises(UserError, match=f"{name}: expected the truth/examination.parquet"):
            read_truth(str(tmp_path / name))
