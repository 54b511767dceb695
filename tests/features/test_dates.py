"""Features with dates: the latest up to a date, or those of every day."""

import datetime as dt

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from ulr.errors import UserError
from ulr.features.files import day_number, find_features
from ulr.features.layout import FeatureLayout
from ulr.features.reading import read_features

DATES = [dt.date(2026, 1, day) for day in (1, 2, 3)]


def rows_of(number, dates=None, name="dt"):
    columns = {"query_id": ["q"], "doc_id": ["d"], "features": [[float(number)]]}
    return pa.table(columns | ({name: dates} if dates else {}))


def in_folders(root):
    for date in DATES:
        (root / f"dt={date}").mkdir()
        pq.write_table(rows_of(date.day), root / f"dt={date}" / "part-0.parquet")


def in_a_text_column(root):
    tables = [rows_of(date.day, [date.isoformat()]) for date in DATES]
    pq.write_table(pa.concat_tables(tables), root / "all.parquet")


def in_a_time_column(root):
    for n, date in enumerate(DATES):
        time = dt.datetime.combine(date, dt.time(13))
        pq.write_table(rows_of(date.day, [time]), root / f"part-{n}.parquet")


FORMS = [in_folders, in_a_text_column, in_a_time_column]


def read(url, dates=(), by_day=False, **keys):
    found = find_features(str(url), FeatureLayout(keys), dates=dates, by_day=by_day)
    tables = [t for part in found.parts() for t in read_features(found, part)]
    return pa.concat_tables(tables).to_pylist()


@pytest.mark.parametrize("write", FORMS)
def test_the_latest_up_to_the_last_date_is_read(tmp_path, write):
    write(tmp_path)
    assert [row["features"] for row in read(tmp_path)] == [[3.0]]
    assert [row["features"] for row in read(tmp_path, DATES[:2])] == [[2.0]]
    later = [dt.date(2026, 2, 1)]
    assert [row["features"] for row in read(tmp_path, later)] == [[3.0]]
    with pytest.raises(UserError, match="no date or before 2025-12-31; they have 2026-01-01 to 20"):
        read(tmp_path, [dt.date(2025, 12, 31)])


@pytest.mark.parametrize("write", FORMS)
def test_by_day_the_rows_of_all_dates_have_their_day(tmp_path, write):
    write(tmp_path)
    rows = read(tmp_path, DATES[1:], by_day=True)
    assert [(r["features"], r["day"]) for r in rows] == [
        ([2.0], day_number(DATES[1])), ([3.0], day_number(DATES[2])),
    ]  # fmt: skip
    with pytest.raises(UserError, match="no date 2026-02-01 to 2026-02-01"):
        read(tmp_path, [dt.date(2026, 2, 1)], by_day=True)


def test_only_the_dates_that_are_read_count_for_the_fingerprint(tmp_path):
    in_folders(tmp_path)
    one = find_features(str(tmp_path), dates=DATES[:1]).identity
    assert find_features(str(tmp_path), dates=DATES[:1]).identity == one
    (tmp_path / f"dt={DATES[2]}" / "part-0.parquet").unlink()
    assert find_features(str(tmp_path), dates=DATES[:1]).identity == one
    assert find_features(str(tmp_path), dates=DATES[:2]).identity != one
    assert find_features(str(tmp_path), dates=DATES[:1], by_day=True).identity != one


def test_the_date_may_have_another_name(tmp_path):
    pq.write_table(rows_of(1, [DATES[0]], "day"), tmp_path / "a.parquet")
    rows = read(tmp_path, DATES, by_day=True, dt="day")
    assert [row["day"] for row in rows] == [day_number(DATES[0])]
    assert len(read(tmp_path)) == 1  # no date is needed


def test_what_has_no_date_is_refused(tmp_path):
    pq.write_table(rows_of(1), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"as_of=day: .*a.parquet has no column dt .*dt=DATE"):
        read(tmp_path, DATES, by_day=True)
    with pytest.raises(UserError, match=r"features.keys.dt: .*has no column day"):
        read(tmp_path, DATES, dt="day")
    (tmp_path / "dt=2026-01-01").mkdir()
    pq.write_table(rows_of(1), tmp_path / "dt=2026-01-01" / "b.parquet")
    with pytest.raises(UserError, match=r"a.parquet is in no folder with a date"):
        read(tmp_path)
    (tmp_path / "a.parquet").unlink()
    (tmp_path / "dt=2026-01-01").rename(tmp_path / "dt=yesterday")
    with pytest.raises(UserError, match=r"dt=yesterday is not a date"):
        read(tmp_path)
    (tmp_path / "dt=yesterday" / "b.parquet").unlink()
    pq.write_table(rows_of(1, ["soon"]), tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a.parquet: dt is string, expected date32"):
        read(tmp_path)


def test_a_column_of_numbers_is_no_date_unless_it_is_named(tmp_path):
    pq.write_table(rows_of(1, [3.5]), tmp_path / "a.parquet")
    assert len(read(tmp_path)) == 1
