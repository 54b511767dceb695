"""The CSV file of judgments."""

from __future__ import annotations

import csv
import io
import json
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from ulr.judgment.csv_text import Layout, csv_text, grade
from ulr.judgment.judge import judgments_schema
from ulr.judgment.prior import Prior

PAGE = Path(__file__).parents[2] / "docs" / "judgments.md"
PRIOR = Prior(2.0, 0.0, 0.0, 0.0, (0.0,))  # uniform: its quantiles are the relevances themselves


def judgments(*names):
    size = len(names)
    values = [0.5, 0.1234567, 0.9, 3, 10, 7.25]
    columns = [*(list(own) for own in zip(*names, strict=True)), *([v] * size for v in values)]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, judgments_schema, strict=True)]
    return pa.table(arrays, schema=judgments_schema)


def read(table, layout):
    text = (layout.header + csv_text(table, layout)).decode()
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_the_columns_of_workbenches_come_first():
    layout = Layout(PRIOR)
    assert layout.header == b"query,docid,rating,lower,upper,clicks,impressions,examined\n"
    line = b"red dress,d1,0.5,0.123457,0.9,3,10,7.25\n"
    assert csv_text(judgments(("red dress", "d1")), layout) == line
    bare = Layout(PRIOR, bare=True)
    assert bare.header == b"query,docid,rating\n"
    assert csv_text(judgments(("q", "d")), bare) == b"q,d,0.5\n"


@pytest.mark.parametrize(
    "name",
    ['6" nails', "a,b", "line\nbreak", "cr\rlf\r\n", "", " spaces ", "日本語 'x'", '","0,1,"'],
)
def test_any_name_is_one_field(name):
    rows = read(judgments((name, "d"), ("next", name)), Layout(PRIOR))
    assert [(row["query"], row["docid"]) for row in rows] == [(name, "d"), ("next", name)]
    assert {row["rating"] for row in rows} == {"0.5"}


def test_names_are_those_of_the_log_unless_a_spreadsheet_would_compute_them():
    names = ("=1+1", "+x"), ("-x", "@x"), ("\tx", "\rx"), ("a=b", "'x")
    table = judgments(*names)
    rows = [(row["query"], row["docid"]) for row in read(table, Layout(PRIOR))]
    assert rows == list(names)
    rows = [(r["query"], r["docid"]) for r in read(table, Layout(PRIOR, spreadsheet=True))]
    assert rows == [("'=1+1", "'+x"), ("'-x", "'@x"), ("'\tx", "'\rx"), ("a=b", "'x")]


def test_grades_are_equally_frequent_under_the_prior():
    assert grade(np.array([0.0, 0.24, 0.26, 0.74, 0.76, 1.0]), PRIOR, 3).tolist() == [
        0, 0, 1, 2, 3, 3
    ]  # fmt: skip
    row = read(judgments(("q", "d")), Layout(PRIOR, grades=3))[0]
    assert (row["rating"], row["lower"], row["upper"]) == ("2", "0", "3")


def test_the_request_of_the_page_has_the_ratings_by_query(tmp_path, monkeypatch):
    """docs/judgments.md makes the body of an import request from the file."""
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    layout = Layout(PRIOR)
    table = judgments(("a, b", "1"), ("a, b", "2"), ("c", "1"))
    (tmp_path / "judgments.csv").write_bytes(layout.header + csv_text(table, layout))
    monkeypatch.chdir(tmp_path)
    exec(compile(code, PAGE.name, "exec"), {})
    request = json.loads((tmp_path / "judgments.json").read_text())
    assert request["type"] == "IMPORT_JUDGMENT"
    assert request["judgmentRatings"] == [
        {"query": "a, b", "ratings": [{"docId": "1", "rating": "0.5"},
                                      {"docId": "2", "rating": "0.5"}]},
        {"query": "c", "ratings": [{"docId": "1", "rating": "0.5"}]},
    ]  # fmt: skip
