"""The last vector of every document that the pages of a date recorded."""

from __future__ import annotations

import datetime as dt
import json
import random

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.support.logged_pages import WIDTH, last_vectors, logged_log, rounded
from tests.support.logs import DATE, NOON, build, page, rows_of
from ulr.errors import UserError
from ulr.features.files import feature_names
from ulr.warehouse.schema import FEATURES, impression_schema, page_schema, with_columns
from ulr.warehouse.tables import Warehouse

PAGES = with_columns(page_schema, [FEATURES])
NAMES = ["price", "stock", "age"]
READ = f"log.features={json.dumps(NAMES)}"
TABLE = "logged_features"


def write(folder, rows, schema=PAGES, files=3):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(files):
        table = pa.Table.from_pylist(rows[n::files], schema=schema)
        pq.write_table(table, folder / f"part-{n}.parquet", row_group_size=500)
    return folder


def stored(root, date=DATE):
    """{(query, document): (time, vector, pages)} of the published table, each row once."""
    rows = rows_of(root, TABLE, date)
    result = {
        (r["query_id"], r["doc_id"]): (r["shown_at"], rounded(r[FEATURES]), r["pages"])
        for r in rows
    }
    assert len(result) == len(rows)
    return result


def digests(root, table):
    return [file.sha256 for file in Warehouse(str(root)).current(table, f"dt={DATE}").files]


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    rows, good, reasons = logged_log(3000, seed=5)
    return write(tmp_path_factory.mktemp("log") / "log", rows), rows, good, reasons


@pytest.fixture(scope="module")
def built(engine, log, tmp_path_factory):
    root = tmp_path_factory.mktemp("w")
    build(engine, root, log[0], READ)
    return root


def test_the_last_vector_of_the_pages_that_count_is_kept(built, log):
    _, _, good, reasons = log
    assert stored(built) == last_vectors(good)
    counts = Warehouse(str(built)).current("groups", f"dt={DATE}").counts
    assert {n[4:]: v for n, v in counts.items() if n.startswith("bad:")} == dict(reasons)
    for row in rows_of(built, "quarantine"):
        if row["reason"] == "wrong_vector":
            assert len(json.loads(row["raw"])[FEATURES][-1]) == WIDTH + 1


def test_rows_are_sorted_and_the_file_has_the_names(built):
    for file in Warehouse(str(built)).files(TABLE, f"dt={DATE}"):
        keys = pq.read_table(file).select(["query_id", "doc_id"]).to_pylist()
        assert [tuple(k.values()) for k in keys] == sorted(tuple(k.values()) for k in keys)
        assert feature_names(str(built), file) == NAMES


@pytest.mark.parametrize("order", ["shuffled", "one file", "all ids repeated"])
def test_the_bytes_do_not_depend_on_files_and_order(engine, built, log, tmp_path, order):
    _, rows, _, _ = log
    again = list(rows)
    random.Random(1).shuffle(again)
    folder = write(tmp_path / "log", again, files=1 if order == "one file" else 5)
    changes = ["log.max_repeated_ids=0"] if order == "all ids repeated" else []
    build(engine, tmp_path / "w", folder, READ, *changes)
    assert digests(tmp_path / "w", TABLE) == digests(built, TABLE)
    assert digests(tmp_path / "w", "groups") == digests(built, "groups")


def test_any_number_of_partitions_has_the_same_rows(engine, log, tmp_path):
    for partitions in (1, 4):
        build(engine, tmp_path / str(partitions), log[0], READ, f"groups.partitions={partitions}")
    one, four = (
        sorted(rows_of(tmp_path / n, TABLE), key=lambda r: (r["query_id"], r["doc_id"]))
        for n in ("1", "4")
    )
    assert str(one) == str(four)
    assert len(one) > 30


def test_groups_are_those_of_the_same_log_without_features(engine, built, log, tmp_path):
    _, _, good, _ = log
    plain = [{n: row[n] for n in page_schema.names} for row in good]
    build(engine, tmp_path / "w", write(tmp_path / "log", plain, page_schema))
    assert digests(tmp_path / "w", "groups") == digests(built, "groups")
    assert Warehouse(str(tmp_path / "w")).current(TABLE, f"dt={DATE}") is None
    ignored = build(engine, tmp_path / "v", log[0])  # the column is there, the setting is not
    assert not ignored.manifest.counts.keys() & {"features", "stale_features", "ranker_rows"}
    assert Warehouse(str(tmp_path / "v")).current(TABLE, f"dt={DATE}") is None


def as_json(rows, folder):
    folder.mkdir()
    lines = (json.dumps(row, default=lambda t: t.isoformat()) for row in rows)
    (folder / "log.json").write_text("\n".join(lines) + "\n")
    return ["log.format=json"]


def as_broken_json(rows, folder):
    changes = as_json(rows, folder)
    path = folder / "log.json"  # lines that Arrow rejects are read one by one
    path.write_text(path.read_text().replace(": null]", ": NaN]") + '{"session_id": \n')
    return changes


def as_csv(rows, folder):
    folder.mkdir()
    cells = [{n: json.dumps(v) if isinstance(v, list) else v for n, v in r.items()} for r in rows]
    table = pa.Table.from_pylist(cells, schema=pa.schema(
        [pa.field(f.name, pa.string() if pa.types.is_list(f.type) else f.type) for f in PAGES]
    ))  # fmt: skip
    pa.csv.write_csv(table, folder / "log.csv")
    return ["log.format=csv"]


def as_doubles(rows, folder):
    double = pa.list_(pa.list_(pa.float64()))
    schema = PAGES.set(PAGES.get_field_index(FEATURES), pa.field("vectors", double))
    write(folder, [{**r, "vectors": r[FEATURES]} for r in rows], schema)
    return ["log.columns={features: vectors}"]


def as_structs(rows, folder):
    items = pa.list_(pa.struct([("id", pa.string()), *((n, pa.float64()) for n in NAMES)]))
    schema = page_schema.set(page_schema.get_field_index("doc_ids"), pa.field("items", items))
    shaped = [
        {**r, "items": [
            {"id": d, **dict(zip(NAMES, v, strict=True))}
            for d, v in zip(r["doc_ids"], r[FEATURES], strict=True)
        ]}
        for r in rows
    ]  # fmt: skip
    write(folder, shaped, schema)
    vector = f"transform(items, i -> array({', '.join('i.' + n for n in NAMES)}))"
    columns = {"doc_ids": "transform(items, i -> i.id)", FEATURES: vector}
    return [f"log.columns={json.dumps(columns)}"]


def as_impressions(rows, folder):
    schema = with_columns(impression_schema, [FEATURES])
    shown = [
        {**r, "doc_id": d, "position": k, "clicked": c, FEATURES: v}
        for r in rows
        for k, (d, c, v) in enumerate(
            zip(r["doc_ids"], r["clicks"], r[FEATURES], strict=True), start=1
        )
    ]
    random.Random(3).shuffle(shown)
    write(folder, shown + shown[:50], schema)  # rows that are delivered twice
    return ["log.layout=impression"]


@pytest.mark.parametrize("form", [as_json, as_broken_json, as_csv, as_doubles, as_impressions])
def test_every_format_gives_the_same_vectors(engine, tmp_path, form):
    check_vectors(engine, tmp_path, form)


def test_an_expression_gives_the_same_vectors(spark_engine, tmp_path):
    check_vectors(spark_engine, tmp_path, as_structs)


def check_vectors(engine, tmp_path, form):
    rng = random.Random(8)
    rows = []
    for number in range(400):
        row = page(number, rng)
        row["shown_at"] += dt.timedelta(seconds=rng.randint(0, 3))
        # Vectors of no null, which an array of struct fields cannot be.
        value = (0.1, 1 / 3, 1e-9, 12345678.9, 7, None)
        row[FEATURES] = [[rng.choice(value) for _ in NAMES] for _ in row["doc_ids"]]
        rows.append(row)
    changes = form(rows, tmp_path / "log")
    outcome = build(engine, tmp_path / "w", tmp_path / "log", READ, *changes)
    assert outcome.manifest.counts["pages"] == 400
    assert stored(tmp_path / "w") == last_vectors(rows)


def test_an_earlier_vector_is_the_last_one_where_a_later_page_of_a_session_is_dropped(
    engine, tmp_path
):
    first = page(1, random.Random(1)) | {"query_id": "q", "doc_ids": ["a"], "clicks": [True],
             "bucket": None, "swapped": None, FEATURES: [[1, 1, 1]]}  # fmt: skip
    later = first | {"shown_at": NOON + dt.timedelta(minutes=9), FEATURES: [[9, 9, 9]]}
    other = first | {"session_id": "t", "shown_at": NOON + dt.timedelta(minutes=5),
                     FEATURES: [[5, 5, 5]]}  # fmt: skip
    log = write(tmp_path / "log", [later, other, first], files=3)
    build(engine, tmp_path / "w", log, READ)
    assert stored(tmp_path / "w") == {("q", "a"): (other["shown_at"], (5, 5, 5), 1)}
    counts = Warehouse(str(tmp_path / "w")).current(TABLE, f"dt={DATE}").counts
    assert counts["rows"] == 1


def test_documents_below_the_longest_list_have_no_features(engine, tmp_path):
    row = page(1, random.Random(1)) | {"doc_ids": ["a", "b"], "clicks": [True, False],
            "bucket": None, "swapped": None, FEATURES: [[1, 1, 1], [2, 2, 2]]}  # fmt: skip
    build(engine, tmp_path / "w", write(tmp_path / "log", [row]), READ, "groups.max_position=1")
    assert {doc for _, doc in stored(tmp_path / "w")} == {"a"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["log.features=[]"], "name one or more features"),
        (["log.features=[a, a]"], "two features are named a"),
        (["log.columns={features: v}"], "set log.features to the names"),
        (["features.source=log"], "set log.features to the names"),
        (["features.source=log", READ, "features.columns=all"], "leave them out"),
    ],
)
def test_wrong_settings_are_one_line(tmp_path, changes, message):
    with pytest.raises(UserError, match=message):
        build(None, tmp_path / "w", tmp_path, *changes)


def test_an_expression_of_texts_is_refused_in_one_line(spark_engine, tmp_path):
    row = page(1, random.Random(1)) | {FEATURES: None}
    log = write(tmp_path / "log", [row])
    column = 'log.columns={features: "transform(doc_ids, d -> array(d))"}'
    with pytest.raises(UserError, match="encode texts as numbers"):
        build(spark_engine, tmp_path / "w", log, READ, column)


def test_which_page_of_a_repeated_session_counts_does_not_depend_on_its_features(engine, tmp_path):
    rng = random.Random(12)
    rows = [
        page(number, rng) | {"shown_at": NOON} for number in range(60) for _ in range(2)
    ]  # two pages of each session at one time
    for row in rows:
        row[FEATURES] = [[rng.random()] * WIDTH for _ in row["doc_ids"]]
    log = write(tmp_path / "log", rows)
    build(engine, tmp_path / "with", log, READ)
    build(engine, tmp_path / "without", log)
    assert digests(tmp_path / "with", "groups") == digests(tmp_path / "without", "groups")
    manifest = Warehouse(str(tmp_path / "with")).current("groups", f"dt={DATE}")
    assert (manifest.counts["pages"], manifest.counts["duplicates"]) == (60, 60)
