"""Features from a table that Spark knows give what the same rows in files give."""

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.pair_inputs import FEATURES, GROUPS
from ulr.config.load import load_settings
from ulr.errors import InvalidData, UserError
from ulr.features.source import feature_rows, open_features
from ulr.features.stage import WindowInputs, gather_window
from ulr.features.window import load_window
from ulr.warehouse.tables import Warehouse

DATES = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
NAMES = ["price", "stock"]
NO_WAREHOUSE = Warehouse("/nonexistent/warehouse")


def columns_of(features, add=0.0):
    """The features as named columns, with a key that has another name and a column of text."""
    matrix = np.array(features["features"].to_pylist()) + add
    named = {name: matrix[:, n] for n, name in enumerate(NAMES)}
    return pa.table({"q": features["query_id"], "doc_id": features["doc_id"], **named,
                     "brand": ["x"] * features.num_rows, "label": features["label"]})  # fmt: skip


def with_dates(tables):
    return pa.concat_tables(
        table.append_column("dt", pa.array([date] * table.num_rows))
        for table, date in zip(tables, DATES, strict=True)
    )


def settings_of(*changes):
    keys = ["features.columns=all", "features.keys={query_id: q}"]
    return load_settings(None, [*keys, *changes]).features


@pytest.fixture
def warehouse(tmp_path):
    house = Warehouse(f"{tmp_path}/warehouse")
    for date in DATES:
        with house.writing("groups", f"dt={date}", "a") as groups:
            groups.write_table(GROUPS)
            groups.publish({})
    return house


def table_and_file(spark_engine, folder, content):
    """The settings of the same rows as a view and as a file."""
    folder.mkdir(exist_ok=True)
    pq.write_table(content, folder / "rows.parquet")
    spark_engine.session.read.parquet(str(folder)).createOrReplaceTempView("products")
    return "features.table=products", f"features.path={folder}"


def window_of(spark_engine, warehouse, settings, dates=DATES):
    source = open_features(spark_engine, NO_WAREHOUSE, settings, dates)
    found = gather_window(spark_engine, WindowInputs(warehouse, dates, source), force=True)
    table = pa.concat_tables(pq.read_table(path) for path in found.files)
    return load_window(table.sort_by("query_id").combine_chunks(), None), source


def vectors(window):
    """The features of every shown document, with its query, by groups."""
    names, queries = window.names.to_pylist(), window.query_ids.to_pylist()
    owner = np.repeat(window.query, window.histograms.sizes)
    return sorted(
        (queries[q], names[r], window.matrix[window.feature_row[r]].tolist())
        for q, r in zip(owner, window.row_of, strict=True)
    )


def test_a_table_gives_the_window_of_the_same_files(spark_engine, tmp_path, warehouse):
    by_table, by_file = table_and_file(spark_engine, tmp_path / "features", columns_of(FEATURES))
    first, source = window_of(spark_engine, warehouse, settings_of(by_table))
    second, files = window_of(spark_engine, warehouse, settings_of(by_file))
    assert source.names() == files.names() == NAMES
    assert vectors(first) == vectors(second)
    assert first.duplicates == second.duplicates == 0
    assert vectors(first)[0] == ("a", "x", [3.0, -3.0])
    manifest = warehouse.require("window", "use=train")
    assert manifest.inputs["feature_names"] == NAMES


@pytest.mark.parametrize("as_of", ["latest", "day"])
def test_a_table_with_dates_gives_the_features_of_the_latest_or_of_each_date(
    spark_engine, tmp_path, warehouse, as_of
):
    content = with_dates([columns_of(FEATURES), columns_of(FEATURES, add=0.5)])
    windows = [
        window_of(spark_engine, warehouse, settings_of(source, f"features.as_of={as_of}"))[0]
        for source in table_and_file(spark_engine, tmp_path / "features", content)
    ]
    assert vectors(windows[0]) == vectors(windows[1])
    rows = {(q, d) for q, d, _ in vectors(windows[0])}
    assert len(windows[0].matrix) == len(rows) * (2 if as_of == "day" else 1)
    early, _ = window_of(
        spark_engine, warehouse, settings_of("features.table=products", f"features.as_of={as_of}"),
        DATES[:1],
    )  # fmt: skip
    assert vectors(early)[0] == ("a", "x", [3.0, -3.0])


def test_a_repeated_row_of_a_table_is_chosen_by_its_content(spark_engine, tmp_path, warehouse):
    rows = pa.concat_tables([columns_of(FEATURES), columns_of(FEATURES, add=0.5)])
    table_and_file(spark_engine, tmp_path / "features", rows)
    settings = settings_of("features.table=products")
    one, _ = window_of(spark_engine, warehouse, settings)
    frame = spark_engine.session.table("products").orderBy("price").repartition(3)
    frame.createOrReplaceTempView("products")
    two, _ = window_of(spark_engine, warehouse, settings)
    assert one.matrix.tolist() == two.matrix.tolist()
    assert one.duplicates == two.duplicates == FEATURES.num_rows


def test_the_identity_of_a_table_is_that_of_its_rows(spark_engine, tmp_path):
    content = columns_of(FEATURES)
    table_and_file(spark_engine, tmp_path / "features", content)
    settings = settings_of("features.table=products")

    def identity():
        return open_features(spark_engine, NO_WAREHOUSE, settings, DATES).identity

    before = identity()
    assert identity() == before
    spark_engine.session.createDataFrame(content.to_pylist()).createOrReplaceTempView("products")
    rows = identity()  # rows without files: their content
    spark_engine.session.createDataFrame(content.to_pylist()[::-1]).createOrReplaceTempView(
        "products"
    )
    assert identity() == rows != before
    spark_engine.session.createDataFrame(content.to_pylist()[1:]).createOrReplaceTempView(
        "products"
    )
    assert identity() != rows


@pytest.mark.parametrize(
    ("changes", "error", "message"),
    [
        (["features.table=product"], UserError, "no such table or view.*did you mean products"),
        (["features.columns=[prise]"], InvalidData, "table products: no column prise.*mean price"),
        (["features.columns=[brand]"], InvalidData, "column brand is string.*StringIndexer"),
        (["features.keys.query_id=query"], InvalidData, "no column query .query_id by features.k"),
        (["features.as_of=day"], UserError, "as_of=day: features.table products has no column dt"),
    ],
)  # fmt: skip
def test_a_mistake_about_a_table_is_one_line(spark_engine, tmp_path, changes, error, message):
    table_and_file(spark_engine, tmp_path / "features", columns_of(FEATURES))
    with pytest.raises(error, match=message) as raised:
        open_features(
            spark_engine, NO_WAREHOUSE, settings_of("features.table=products", *changes), DATES
        )
    assert "\n" not in str(raised.value)


def test_names_in_the_metadata_of_a_table_are_read(spark_engine):
    rows = [("q", "d", [1.0, 2.0])]
    frame = spark_engine.session.createDataFrame(
        rows, "query_id string, doc_id string, features array<double>"
    )
    frame.withMetadata("features", {"names": NAMES}).createOrReplaceTempView("named")
    settings = load_settings(None, ["features.table=named"]).features
    source = open_features(spark_engine, NO_WAREHOUSE, settings)
    assert source.names() == NAMES
    batches = spark_engine.map(*feature_rows(source, _rows))
    got = [row for batch in batches for row in batch.to_pylist()]
    assert got == [{"query_id": "q", "features": [1.0, 2.0]}]


def _rows(rows):
    for _, table in rows:
        yield from table.select(["query_id", "features"]).to_batches()
