"""Bad logs through the stage: each ends as expected, and every row is counted."""

from __future__ import annotations

import datetime as dt
import random
import threading

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.fuzzed_logs import FAULTS, unaccounted, write_fault
from tests.support.fuzzed_text import pages
from tests.support.logs import DATE, NOON, build, page, rows_of, write_json, write_parquet
from ulr.clicklog import sources
from ulr.clicklog.crashes import crash_of
from ulr.clicklog.files import find_log
from ulr.clicklog.quarantine import examples_of, reasons_in
from ulr.errors import InvalidData, TemporaryFailure, UserError
from ulr.groups import stage
from ulr.groups.window import groups_files, window_dates
from ulr.warehouse.schema import page_schema
from ulr.warehouse.tables import Warehouse


@pytest.mark.parametrize("number", random.Random(15).sample(range(FAULTS), 24))
def test_a_log_with_a_fault_ends_with_one_line_and_every_row_is_counted(engine, tmp_path, number):
    fault = write_fault(number, tmp_path / "log")
    warehouse = Warehouse(str(tmp_path / "w"))
    code, message = 0, ""
    try:
        build(engine, tmp_path / "w", tmp_path / "log", *fault.settings, "log.min_pages=1")
    except UserError as error:
        code, message = error.exit_code, str(error)
    assert code in fault.exit_codes
    assert "\n" not in message
    quarantine = warehouse.current("quarantine", f"dt={DATE}")
    if quarantine is not None:
        assert unaccounted(quarantine.counts) == 0
        assert fault.reasons <= set(reasons_in(quarantine.counts))
        examples_of(warehouse, [str(DATE)])
        for file in warehouse.files("quarantine", f"dt={DATE}"):
            pq.read_table(file).validate(full=True)


@pytest.mark.parametrize("where", [b'"query_id"', b'"q', b'"d', b'"extra"'])
def test_a_byte_that_is_not_utf8_quarantines_its_line_and_the_report_reads_it(
    engine, tmp_path, where
):
    rng = random.Random(1)
    path = write_json(tmp_path / "log", [page(n, rng) | {"extra": "x"} for n in range(50)])
    lines = (path / "log.json").read_bytes().splitlines()
    lines[7] = lines[7].replace(where, where[:2] + b"\xff" + where[2:], 1)
    (path / "log.json").write_bytes(b"\n".join(lines) + b"\n")
    outcome = build(engine, tmp_path / "w", path, "log.format=json")
    assert reasons_in(outcome.manifest.counts) == {"bad_encoding": 1}
    assert outcome.manifest.counts["pages"] == 49
    (row,) = rows_of(tmp_path / "w", "quarantine")
    assert "\ufffd" in row["raw"]
    (example,) = examples_of(Warehouse(str(tmp_path / "w")), [str(DATE)])
    assert example["reason"] == "bad_encoding"


def test_times_that_python_cannot_represent_are_quarantined_and_shown_in_the_report(
    engine, tmp_path
):
    (tmp_path / "log").mkdir()
    rows = [row | {"shown_at": NOON} for row in pages(random.Random(2), 5)]
    table = pa.Table.from_pylist(rows, schema=page_schema)
    times = pa.array([2**62, -(2**62), 0, *[int(NOON.timestamp()) * 10**6] * 2], pa.timestamp("us"))
    pq.write_table(table.set_column(2, "shown_at", times), tmp_path / "log" / "a.parquet")
    outcome = build(engine, tmp_path / "w", tmp_path / "log")
    assert reasons_in(outcome.manifest.counts) == {"date_out_of_range": 3}
    assert all(row["shown_at"] is None for row in rows_of(tmp_path / "w", "quarantine"))
    examples = examples_of(Warehouse(str(tmp_path / "w")), [str(DATE)], each=3)
    assert str(2**62) in "".join(e["row"] for e in examples)


def test_a_date_with_too_few_pages_publishes_no_groups_and_its_window_still_works(engine, tmp_path):
    rng = random.Random(3)
    root, log = tmp_path / "w", tmp_path / "log"
    write_parquet(log / f"dt={DATE}", [page(n, rng) for n in range(9)])
    build(engine, root, log, "log.min_pages=9")
    with pytest.raises(
        InvalidData, match=r"9 valid pages in 9 rows, fewer than log.min_pages = 10"
    ):
        build(engine, root, log, "log.min_pages=10")  # unchanged, and still too few
    empty = DATE + dt.timedelta(days=1)
    write_parquet(log / f"dt={empty}", [])
    with pytest.raises(InvalidData, match="0 valid pages in 0 rows"):
        build(engine, root, log, "log.min_pages=1", date=empty)
    warehouse = Warehouse(str(root))
    assert warehouse.current("groups", f"dt={empty}") is None
    build(engine, root, log, date=empty)  # as an earlier version published it
    dates = window_dates(warehouse, str(empty), days=2)
    assert dates == [DATE, empty]
    assert len(groups_files(warehouse, dates)) > 0


def replacing(monkeypatch, times: int, replace) -> list[int]:
    """Replace the log in another thread while each of the first readings is under way."""
    write, calls = stage.write_groups, []

    def slow(*args, **options):
        counts = write(*args, **options)
        calls.append(len(calls))
        if len(calls) <= times:
            thread = threading.Thread(target=replace, args=(len(calls),))
            thread.start()
            thread.join()
        return counts

    monkeypatch.setattr(stage, "write_groups", slow)
    return calls


def test_a_log_that_is_replaced_while_it_is_read_is_read_again(engine, tmp_path, monkeypatch):
    rng = random.Random(4)
    path = write_parquet(tmp_path / "log", [page(n, rng) for n in range(30)])

    def replace(turn: int) -> None:
        rows = [page(n, rng) for n in range(30 + 10 * turn)]
        write_parquet(tmp_path / "new", rows, files=1)
        (tmp_path / "new" / "part-0.parquet").rename(path / "part-0.parquet")
        for n in (1, 2):
            (path / f"part-{n}.parquet").unlink(missing_ok=True)

    calls = replacing(monkeypatch, 1, replace)
    outcome = build(engine, tmp_path / "w", path)
    assert (len(calls), outcome.manifest.counts["pages"]) == (2, 40)
    assert [name for name, *_ in outcome.manifest.inputs] == ["part-0.parquet"]


def test_a_log_that_keeps_changing_is_a_temporary_failure_that_names_a_file(
    engine, tmp_path, monkeypatch
):
    rng = random.Random(5)
    path = write_parquet(tmp_path / "log", [page(n, rng) for n in range(9)], files=1)

    def add(turn: int) -> None:
        (path / f"more-{turn}.parquet").write_bytes((path / "part-0.parquet").read_bytes())

    replacing(monkeypatch, 9, add)
    with pytest.raises(TemporaryFailure, match=r"changed 3 times.*more-3.parquet was added"):
        build(engine, tmp_path / "w", path)
    assert Warehouse(str(tmp_path / "w")).current("groups", f"dt={DATE}") is None


def test_a_file_removed_before_a_task_opens_it_leads_to_another_reading(
    engine, tmp_path, monkeypatch
):
    rng = random.Random(6)
    path = write_parquet(tmp_path / "log", [page(n, rng) for n in range(30)], files=3)
    opened, calls = sources.open_pages, []

    def remove_one(*args):
        source = opened(*args)
        (path / "part-2.parquet").unlink(missing_ok=True)
        calls.append(source)
        return source

    monkeypatch.setattr(sources, "open_pages", remove_one)
    assert build(engine, tmp_path / "w", path).manifest.counts["pages"] == 20
    assert len(calls) == 2


@pytest.mark.kill
def test_a_footer_that_ends_the_reading_process_is_named(engine, tmp_path):
    rng = random.Random(7)
    path = write_parquet(tmp_path / "log", [page(n, rng) for n in range(9)], files=3)
    file = path / "part-1.parquet"
    # The elements of a list are required instead of optional: their statistics have one entry too
    # many, for which Arrow raises a C++ exception that Python's bindings do not catch.
    content = file.read_bytes()
    damaged = content.replace(b"\x25\x02\x18\x07element", b"\x25\x00\x18\x07element", 1)
    assert damaged != content
    file.write_bytes(damaged)
    lost = RuntimeError("Python worker exited unexpectedly (crashed)")
    if crash_of(lost, find_log(str(path), DATE), "parquet") is None:
        pytest.skip("this version of Arrow reports the damage as an error")
    with pytest.raises(InvalidData, match=r"part-1.parquet is not a readable Parquet file.*signal"):
        build(engine, tmp_path / "w", path)
