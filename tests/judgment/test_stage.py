"""`ulr judgments`: the file of a window."""

from __future__ import annotations

import csv
import json
from collections import Counter

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.support.simulated_log import simulate_log
from ulr import judgments
from ulr.cli.main import main

DATE = ["--date", "2026-01-01"]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    root = tmp_path_factory.mktemp("judgments")
    return root, simulate_log(root)


def pages_of(root):
    return ds.dataset(str(root / "log" / "log"), exclude_invalid_files=True).to_table()


def read(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def counted(pages):
    """Return clicks and impressions of every document at its displayed positions, by loops."""
    clicks, shown = Counter(), Counter()
    for page in pages.to_pylist():
        for doc, clicked in zip(page["doc_ids"], page["clicks"], strict=True):
            shown[page["query_id"], doc] += 1
            clicks[page["query_id"], doc] += clicked
    return clicks, shown


def test_the_file_has_every_shown_document_in_order(log, tmp_path, capsys):
    root, flags = log
    target = tmp_path / "judgments.csv"
    capsys.readouterr()
    assert main(["judgments", *DATE, "--out", str(target), "--json", *flags]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = read(target)
    clicks, shown = counted(pages_of(root))
    assert {(r["query"], r["docid"]): int(r["impressions"]) for r in rows} == shown
    assert {(r["query"], r["docid"]): int(r["clicks"]) for r in rows} == {
        key: clicks[key] for key in shown
    }
    order = [(r["query"], -float(r["rating"]), r["docid"]) for r in rows]
    assert order == sorted(order)
    assert document["documents"] == len(rows)
    assert 0 < document["prior"]["mean"] < 1
    assert document["intervals_contain_propensities"] is False  # they come from a file


def test_they_are_those_of_the_notebook(log, tmp_path):
    root, flags = log
    target = tmp_path / "judgments.csv"
    assert main(["judgments", *DATE, "--out", str(target), *flags]) == 0
    truth = str(root / "log" / "truth" / "examination.parquet")
    table = judgments(pages_of(root), truth).to_pylist()
    rows = read(target)
    assert [(r["query"], r["docid"]) for r in rows] == [(r["query_id"], r["doc_id"]) for r in table]
    for name in ("rating", "lower", "upper", "examined"):
        found = [float(row[name]) for row in rows]
        assert found == pytest.approx([row[name] for row in table], abs=1e-6)


def test_the_bytes_do_not_depend_on_the_partitions(log, tmp_path, monkeypatch):
    _, flags = log
    files = []
    for partitions in (1, 7):
        monkeypatch.setattr("ulr.judgment.stage.partitions_for", lambda size, n=partitions: n)
        files.append(tmp_path / f"{partitions}.csv")
        assert main(["judgments", *DATE, "--out", str(files[-1]), *flags]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()


def test_options_select_documents_and_columns(log, tmp_path):
    root, flags = log
    target = tmp_path / "judgments.csv"
    options = ["--min-impressions", "25", "--bare", "--scale", "0..3"]
    assert main(["judgments", *DATE, "--out", str(target), *options, *flags]) == 0
    rows = read(target)
    _, shown = counted(pages_of(root))
    assert len(rows) == sum(count >= 25 for count in shown.values())
    assert set(rows[0]) == {"query", "docid", "rating"}
    assert {row["rating"] for row in rows} <= set("0123")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--scale", "1..5"], "--scale 1..5: give 0..1 for relevances, or grades, as in 0..3"),
        (["--min-impressions", "0"], "--min-impressions 0: give a number from 1"),
        (["--out", "/nowhere/at/all.csv"], "there is no folder /nowhere/at"),
        (["--date", "2020-01-01"], "no groups from 2019-12-03 to 2020-01-01"),
    ],
)
def test_a_mistake_is_one_line(log, tmp_path, capsys, options, message):
    _, flags = log
    target = ["--out", str(tmp_path / "judgments.csv")]
    capsys.readouterr()
    assert main(["judgments", *DATE, *target, *options, *flags]) == 2
    error = capsys.readouterr().err.strip()
    assert message in error
    assert "\n" not in error
    assert list(tmp_path.iterdir()) == []


def given(tmp_path, **columns):
    """Write propensities of six positions with more columns; return the flag that names them."""
    theta = [1 / k for k in range(1, 7)]
    pairs = [(k, v) for k in range(1, 7) for v in range(k, 7)]
    table = {
        "segment": pa.nulls(len(pairs), pa.string()), "k": [k for k, _ in pairs],
        "l": [v for _, v in pairs],
        "psi": [theta[v - 1] * (theta[k - 1] if k != v else 1.0) for k, v in pairs],
    }  # fmt: skip
    more = {name: [value] * len(pairs) for name, value in columns.items()}
    pq.write_table(pa.table(table | more), tmp_path / "given.parquet")
    return ["--set", f"pairs.propensities={tmp_path}/given.parquet"]


def test_a_warning_says_which_ratings_are_too_low_if_users_stop_after_clicks(log, tmp_path, capsys):
    _, flags = log
    target = ["--out", str(tmp_path / "judgments.csv")]
    more = given(tmp_path, stop_probability=0.5, continue_probability=0.9)
    assert main(["judgments", *DATE, *target, *flags, *more]) == 0
    assert "documents below relevant ones are rated too low" in capsys.readouterr().err


def test_trust_bias_is_subtracted_if_it_is_given(log, tmp_path, capsys):
    _, flags = log
    ratings = []
    for name, correction, more in (
        ("theta", "theta", given(tmp_path)),
        ("affine", "affine", given(tmp_path, alpha=0.5, beta=0.02)),
    ):
        target = tmp_path / f"{name}.csv"
        setting = ["--set", f"evaluate.correction={correction}"]
        assert main(["judgments", *DATE, "--out", str(target), *flags, *more, *setting]) == 0
        ratings.append({(r["query"], r["docid"]): float(r["rating"]) for r in read(target)})
    assert ratings[0].keys() == ratings[1].keys()
    assert ratings[0] != ratings[1]
    capsys.readouterr()
    none = [*flags, *given(tmp_path), "--set", "evaluate.correction=affine"]
    assert main(["judgments", *DATE, "--out", str(tmp_path / "none.csv"), *none]) == 2
    assert "needs alpha and beta" in capsys.readouterr().err
