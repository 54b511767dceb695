"""A night on features of the log ends with the model of the same features in a dated table."""

from __future__ import annotations

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.registry_server import put_empty_database
from ulr.cli.doctor.features import features_are_readable
from ulr.cli.main import main
from ulr.config.load import load_settings
from ulr.models.published import read_model
from ulr.warehouse.schema import FEATURES, features_schema, page_schema, with_columns
from ulr.warehouse.tables import Warehouse

DATES = ("2026-01-01", "2026-01-02")
NAMES = [f"f{n}" for n in range(1, 9)]


def flags_of(root, **changes):
    values = {
        "warehouse.path": f"{root}/warehouse", "simulate.path": f"{root}/log",
        "simulate.queries": 60, "simulate.pages_per_day": 20000, "simulate.days": 2,
        "simulate.features": 8, "simulate.docs_per_query": 8, "simulate.positions": 4,
        "simulate.zipf": 0.2, "simulate.drift": 0.3,
        "simulate.swaps": "[{kind: single, fraction: 0.9}]",
        "log.path": f"{root}/log/log", "groups.partitions": 2, "pairs.partitions": 2,
        "train.num_iterations": 5, "lightgbm.min_sum_hessian_in_leaf": 0.1,
        "lightgbm.num_leaves": 4, "lightgbm.num_threads": 1, "mlflow.local_path": f"{root}/mlruns",
        "mlflow.live": False, "pairs.test_fraction": 0.3, "pairs.method": "joint", **changes,
    }  # fmt: skip
    return [flag for key, value in values.items() for flag in ("--set", f"{key}={value}")]


@pytest.fixture(scope="module")
def logged(tmp_path_factory):
    """Simulate two dates whose pages record features that change by date; and a dated table."""
    root = tmp_path_factory.mktemp("logged")
    put_empty_database(root / "mlruns")
    assert main(["simulate", *flags_of(root)]) == 0
    rows = pq.read_table(root / "log" / "features").to_pylist()
    rng = np.random.default_rng(4)
    for date in DATES:
        of_day = {}
        for row in rows:
            vector = np.float32(row["features"]) + rng.normal(0, 0.1, 8).astype(np.float32)
            vector[rng.random(8) < 0.05] = np.nan
            of_day[row["query_id"], row["doc_id"]] = vector
        folder = root / "log" / "log" / f"dt={date}"
        shown = set()
        for file in folder.glob("*.parquet"):
            pages = pq.read_table(file, partitioning=None).to_pylist()
            for page in pages:
                keys = [(page["query_id"], doc) for doc in page["doc_ids"]]
                shown |= set(keys)
                page[FEATURES] = [of_day[key].astype(float) for key in keys]
            table = pa.Table.from_pylist(pages, schema=with_columns(page_schema, [FEATURES]))
            pq.write_table(table, file)
        table = pa.Table.from_pylist(
            [{"query_id": q, "doc_id": d, "features": of_day[q, d]} for q, d in sorted(shown)],
            schema=features_schema,
        )
        target = root / "features" / f"dt={date}"
        target.mkdir(parents=True)
        pq.write_table(table, target / "part-0.parquet")
    return root


@pytest.fixture(scope="module")
def night(logged):
    own = flags_of(logged, **{"features.source": "log", "log.features": json.dumps(NAMES)})
    assert main(["nightly", "--date", f"{DATES[0]}..{DATES[1]}", *own]) in (0, 4)
    return own


def model_of(root):
    return read_model(Warehouse(str(root)), "joint")


def test_the_model_is_that_of_a_table_with_the_features_of_each_day(night, logged, tmp_path):
    named = json.dumps(NAMES)
    for file in (logged / "features").rglob("*.parquet"):
        table = pq.read_table(file, partitioning=None)
        at = table.schema.get_field_index("features")
        field = table.schema.field(at).with_metadata({"names": named})
        pq.write_table(table.cast(table.schema.set(at, field)), file)
    changes = {"features.path": f"{logged}/features", "features.as_of": "day",
               "warehouse.path": f"{tmp_path}/warehouse"}  # fmt: skip
    dated = flags_of(logged, **changes)
    date = f"{DATES[0]}..{DATES[1]}"
    for stage in ("groups", "propensities", "pairs", "train"):
        assert main([stage, *(["--date", date] if stage != "train" else []), *dated]) == 0
    ours = model_of(logged / "warehouse")
    assert ours == model_of(tmp_path / "warehouse")
    assert f"feature_names={' '.join(NAMES)}" in ours


def test_scores_and_regression_em_read_the_features_of_the_log(night, logged, capsys):
    assert main(["score", "--model", "joint", *night]) == 0
    scored = Warehouse(str(logged / "warehouse")).read("scores")
    last = pq.read_table(logged / "features" / f"dt={DATES[1]}", partitioning=None)
    assert scored.num_rows == last.num_rows
    em = [*night, "--set", "propensities.estimator=regression_em", "--set",
          f"warehouse.path={logged}/warehouse"]  # fmt: skip
    assert main(["propensities", "--date", f"{DATES[0]}..{DATES[1]}", *em]) == 0


def test_a_re_run_reads_the_features_of_the_log(night):
    assert main(["rerun", "--from", DATES[0], "--to", DATES[1], "--methods", "naive",
                 "--name", "again", *night]) == 0  # fmt: skip


def test_dates_that_were_read_without_features_are_one_line(night, logged, tmp_path, capsys):
    root = f"{tmp_path}/warehouse"
    plain = flags_of(logged, **{"warehouse.path": root, "features.path": f"{logged}/features"})
    assert main(["groups", "--date", DATES[0], *plain]) == 0
    assert main(["propensities", "--date", DATES[0], *plain]) == 0
    capsys.readouterr()
    own = [*night, "--set", f"warehouse.path={root}"]
    assert main(["pairs", "--date", DATES[0], *own]) == 2
    error = capsys.readouterr().err
    assert f"the features of {DATES[0]} have not been read from the log" in error
    assert f"ulr groups --date {DATES[0]}" in error


def test_doctor_opens_the_features_of_the_log(night, logged, tmp_path):
    changes = night[1::2]
    found = features_are_readable(load_settings(None, changes))
    assert f"has 8 features, numbers in features: {', '.join(NAMES[:5])}" in found.message
    empty = load_settings(None, [*changes, f"warehouse.path={tmp_path}"])
    assert "none read from the log yet" in features_are_readable(empty).message
