"""`ulr ab` on real logs: counts by ranker from every format, which do not change the groups."""

from __future__ import annotations

import datetime as dt
import json
import random

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.ab_loops import difference_by_loops
from tests.support.logs import DATE, NOON, build, page, rows_of
from ulr.cli.main import main
from ulr.warehouse.schema import RANKER, impression_schema, page_schema, with_columns
from ulr.warehouse.tables import Warehouse

NEXT = DATE + dt.timedelta(days=1)
DATES = f"{DATE}..{NEXT}"
PAGES = with_columns(page_schema, [RANKER])


def pages_of(date, number, seed):
    """Good pages in random order, some delivered twice, and the pages that count."""
    rng = random.Random(seed)
    good = []
    for n in range(number):
        row = page(n, rng, date)
        name = rng.choice(["new", "old", "old", "third", None, ""])
        good.append(row | {"session_id": f"{date}-{n}", RANKER: name})
    copies = [dict(row) for row in good[: number // 10]]
    log = good + copies + [good[0] | {"query_id": None}]
    later = [row | {"shown_at": row["shown_at"] + dt.timedelta(hours=1), RANKER: "old",
                    "clicks": [True] * len(row["clicks"])} for row in good[:20]]  # fmt: skip
    log += later
    rng.shuffle(log)
    return log, good


def write(folder, rows, schema=PAGES, files=2):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(files):
        pq.write_table(pa.Table.from_pylist(rows[n::files], schema=schema), folder / f"{n}.parquet")
    return folder


@pytest.fixture(scope="module")
def house(engine, tmp_path_factory):
    """Two dates of groups with different numbers of partitions, and the pages that count."""
    root = tmp_path_factory.mktemp("ab")
    every = []
    for date, partitions in ((DATE, 3), (NEXT, 2)):
        log, good = pages_of(date, 700, seed=partitions)
        path = write(root / "log" / f"dt={date}", log).parent
        build(engine, root / "w", path, f"groups.partitions={partitions}", date=date)
        every += good
    return root, every


def run(capsys, root, *args):
    code = main(["ab", "--set", f"warehouse.path={root}/w", *args])
    printed = capsys.readouterr()
    return code, printed


def compare(capsys, root, *args):
    code, printed = run(capsys, root, "--date", DATES, "--json", *args)
    assert code == 0, printed.err
    return json.loads(printed.out)


def expected(pages, a, b, metric):
    """The rates and the difference of a metric by plain loops."""
    sums = {}
    for row in pages:
        if row[RANKER] not in (a, b):
            continue
        own = sums.setdefault(row["query_id"], [0, 0, 0, 0])
        side = 0 if row[RANKER] == a else 2
        first = row["clicks"].index(True) + 1 if any(row["clicks"]) else None
        event = sum(row["clicks"]) if metric == "clicks_per_page" else first is not None
        if metric.startswith("first"):
            event = first is not None and first <= int(metric[-1])
        own[side] += 1
        own[side + 1] += event
    na, xa, nb, xb = np.array(list(sums.values()), float).T
    return xa.sum() / na.sum(), xb.sum() / nb.sum(), difference_by_loops(na, xa, nb, xb), len(sums)


def test_two_rankers_are_compared_over_dates_without_repeated_and_bad_pages(house, capsys):
    root, pages = house
    document = compare(capsys, root, "--a", "new", "--b", "old")
    served = [row[RANKER] for row in pages]
    assert document["pages"] == {n: served.count(n) for n in ("old", "new", "third")}
    assert document["dates"] == [str(DATE), str(NEXT)]
    assert [m["name"] for m in document["metrics"]] == [
        "first_click_at_1", "first_click_at_3", "first_click_at_5", "ctr", "clicks_per_page",
    ]  # fmt: skip
    for metric in document["metrics"]:
        a, b, (difference, variance, _), queries = expected(pages, "new", "old", metric["name"])
        assert (metric["a"], metric["b"]) == (pytest.approx(a), pytest.approx(b))
        assert metric["difference"] == pytest.approx(difference)
        assert 1.9 < (metric["upper"] - difference) / np.sqrt(variance) < 13
        assert document["queries"] == queries
        if metric["name"] != "clicks_per_page":
            wins = [metric[n] for n in ("win", "same", "loss")]
            assert sum(wins) == document["queries_of_both"]


def test_a_segment_and_the_order_of_the_rankers(house, capsys):
    root, pages = house
    chosen = [row for row in pages if row["segment"] == "mobile"]
    document = compare(capsys, root, "--a", "old", "--b", "third", "--segment", "mobile")
    a, b, (difference, _, _), _ = expected(chosen, "old", "third", "ctr")
    ctr = document["metrics"][3]
    assert (ctr["a"], ctr["b"]) == (pytest.approx(a), pytest.approx(b))
    back = compare(capsys, root, "--a", "third", "--b", "old", "--segment", "mobile")["metrics"][3]
    assert back["difference"] == pytest.approx(-difference)
    assert back["p_value"] == pytest.approx(ctr["p_value"])
    assert (back["win"], back["loss"]) == (ctr["loss"], ctr["win"])


def test_the_most_frequent_ranker_is_the_baseline_and_the_table_names_the_others(house, capsys):
    root, pages = house
    served = [row[RANKER] for row in pages]
    most = sorted(("old", "new", "third"), key=lambda n: -served.count(n))
    code, printed = run(capsys, root, "--date", DATES)
    assert code == 0
    assert f"{most[1]} ({served.count(most[1]):,} pages) against {most[0]}" in printed.out
    assert f"not compared: {most[2]}" in printed.out
    assert "first_click_at_1" in printed.out
    assert "sign p" in printed.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--a", "nwe"], "2026-01-02 was served by it (did you mean new?); there is old"),
        (["--a", "new", "--b", "new"], "--a and --b are both new"),
        (["--segment", "watch"], "--segment watch: no page of 2026-01-01 to 2026-01-02 is in it"),
    ],
)  # fmt: skip
def test_wrong_names_are_one_line(house, capsys, args, message):
    code, printed = run(capsys, house[0], "--date", DATES, *args)
    assert code == 2
    assert message in printed.err
    assert "Traceback" not in printed.err


def digests(root, table="groups"):
    manifest = Warehouse(str(root)).current(table, f"dt={DATE}")
    return [file.sha256 for file in manifest.files if file.is_data]


def test_a_log_without_rankers_is_one_line_and_its_groups_are_the_same(engine, tmp_path, capsys):
    log, _ = pages_of(DATE, 300, seed=1)
    plain = [{n: row[n] for n in page_schema.names} for row in log]
    build(engine, tmp_path / "w", write(tmp_path / "plain", plain, page_schema))
    build(engine, tmp_path / "v", write(tmp_path / "log", log))
    files = Warehouse(str(tmp_path / "w")).current("groups", f"dt={DATE}").files
    assert all(file.is_data for file in files)
    assert digests(tmp_path / "w") == digests(tmp_path / "v")
    kept = [[row | {"source": ""} for row in rows_of(tmp_path / n, "quarantine")] for n in "wv"]
    assert kept[0] == kept[1] != []
    code, printed = run(capsys, tmp_path, "--date", str(DATE))
    assert code == 2
    assert "log.columns.ranker" in printed.err
    assert printed.err.count("\n") <= 2


def test_a_single_ranker_is_one_line(engine, tmp_path, capsys):
    rows = [page(n, random.Random(n)) | {RANKER: "only"} for n in range(5)]
    build(engine, tmp_path / "w", write(tmp_path / "log", rows))
    code, printed = run(capsys, tmp_path, "--date", str(DATE))
    assert code == 2
    assert "all pages of 2026-01-01 were served by only (5 pages)" in printed.err


def ranker_rows(root):
    house = Warehouse(str(root))
    manifest = house.current("groups", f"dt={DATE}")
    files = [f.name for f in manifest.files if f.name.startswith("_rankers-")]
    folder = f"{root}/{manifest.where}/{manifest.folder}"
    tables = [pq.read_table(f"{folder}/{name}", partitioning=None) for name in files]
    return sorted(map(str, pa.concat_tables(tables).to_pylist()))


def test_every_format_and_the_names_of_columns_give_the_same_counts(engine, spark_engine, tmp_path):
    rng = random.Random(5)
    rows = [page(n, rng) | {RANKER: rng.choice(["a", "b", None])} for n in range(300)]
    build(engine, tmp_path / "page", write(tmp_path / "p", rows))
    shown = [
        {**row, "doc_id": d, "position": k, "clicked": c}
        for row in rows
        for k, (d, c) in enumerate(zip(row["doc_ids"], row["clicks"], strict=True), start=1)
    ]
    rng.shuffle(shown)
    impressions = write(tmp_path / "i", shown, with_columns(impression_schema, [RANKER]))
    build(engine, tmp_path / "impression", impressions, "log.layout=impression")
    named = PAGES.set(PAGES.get_field_index(RANKER), pa.field("model", pa.string()))
    models = write(tmp_path / "m", [row | {"model": row[RANKER]} for row in rows], named)
    build(engine, tmp_path / "named", models, "log.columns={ranker: model}")
    build(spark_engine, tmp_path / "sql", models, "log.columns={ranker: lower(model)}")
    (tmp_path / "j").mkdir()
    lines = (json.dumps(row, default=lambda t: t.isoformat()) for row in rows)
    (tmp_path / "j" / "log.json").write_text("\n".join(lines) + "\n")
    build(engine, tmp_path / "json", tmp_path / "j", "log.format=json")
    every = [ranker_rows(tmp_path / n) for n in ("page", "impression", "named", "sql", "json")]
    assert all(rows == every[0] for rows in every)
    assert len(every[0]) > 20


def test_rows_of_a_session_with_two_rankers_are_quarantined(engine, tmp_path):
    row = {"session_id": "s", "query_id": "q", "shown_at": NOON, "clicked": False}
    shown = [row | {"doc_id": "a", "position": 1, RANKER: "x"},
             row | {"doc_id": "b", "position": 2, RANKER: "y"}]  # fmt: skip
    log = write(tmp_path / "log", shown, with_columns(impression_schema, [RANKER]))
    outcome = build(engine, tmp_path / "w", log, "log.layout=impression")
    assert outcome.manifest.counts["bad:conflicting_rows"] == 1


def test_pages_with_feedback_and_without_clicks_count_their_events(engine, tmp_path):
    schema = with_columns(page_schema, ["feedback", RANKER])
    row = page(1, random.Random(2)) | {"doc_ids": ["a", "b", "c"], "clicks": None, "bucket": None,
               "swapped": None, RANKER: "x", "feedback": [None, "buy", "click"]}  # fmt: skip
    log = write(tmp_path / "log", [row], schema, files=1)
    build(engine, tmp_path / "w", log, "log.feedback={click: 1, buy: 5}")
    (counts,) = ranker_rows(tmp_path / "w")
    assert "'first_click': 2, 'pages': 1, 'clicks': 2" in counts


def test_the_truth_of_a_simulated_test_is_in_the_intervals(engine, tmp_path, capsys):
    """Ranker a shows the relevant document first, b second; position k is examined with P 1/k."""
    rng = np.random.default_rng(6)
    n, relevance = 12_000, {"a": (0.6, 0.2, 0.1), "b": (0.2, 0.6, 0.1)}
    query = np.minimum(rng.zipf(1.5, n), 300)
    side = rng.random(n) < 0.3
    chance = np.where(side[:, None], *(relevance[name] for name in "ab")) / np.arange(1, 4)
    clicks = rng.random((n, 3)) < chance
    rows = {
        "session_id": [f"s{k}" for k in range(n)], "query_id": [f"q{q}" for q in query],
        "shown_at": [NOON] * n, "doc_ids": [["d1", "d2", "d3"]] * n, "clicks": clicks.tolist(),
        "segment": None, "bucket": None, "swapped": None, RANKER: np.where(side, "a", "b"),
    }  # fmt: skip
    columns = [v if v is not None else [None] * n for v in rows.values()]
    (tmp_path / "log").mkdir()
    pq.write_table(pa.table(columns, schema=PAGES), tmp_path / "log" / "pages.parquet")
    build(engine, tmp_path / "w", tmp_path / "log")
    code, printed = run(capsys, tmp_path, "--date", str(DATE), "--a", "a", "--b", "b", "--json")
    assert code == 0
    metrics = {m["name"]: m for m in json.loads(printed.out)["metrics"]}
    some = {x: 1 - np.prod(1 - np.array(relevance[x]) / [1, 2, 3]) for x in "ab"}
    truth = {"first_click_at_1": 0.6 - 0.2, "ctr": some["a"] - some["b"],
             "first_click_at_3": some["a"] - some["b"]}  # fmt: skip
    for name, difference in truth.items():
        metric = metrics[name]
        assert metric["lower"] < difference < metric["upper"]
        assert metric["p_value"] < 1e-3
        assert metric["win"] > metric["loss"]
        assert metric["sign_p_value"] < 0.05
    assert metrics["first_click_at_1"]["relative"] == pytest.approx(2, rel=0.2)


def test_dates_without_rankers_are_named_and_left_out(engine, tmp_path, capsys):
    log, _ = pages_of(DATE, 200, seed=2)
    build(engine, tmp_path / "w", write(tmp_path / "log", log))
    plain = [row | {RANKER: None} for row in pages_of(NEXT, 50, seed=3)[0]]
    build(engine, tmp_path / "w", write(tmp_path / "next", plain), date=NEXT)
    code, printed = run(capsys, tmp_path, "--date", DATES)
    assert code == 0
    assert f"no page names its ranker on {NEXT}" in printed.out
    assert compare(capsys, tmp_path)["dates"] == [str(DATE)]
