"""The notebook API gives what the service's stages give on the same log."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

from tests.support.simulated_log import simulate_log
from ulr import Ranker, evaluate, propensities
from ulr.cli.main import main
from ulr.config.load import load_settings
from ulr.ml.propensities import PropensityEstimates
from ulr.propensity.stage import estimate_propensities
from ulr.propensity.tables import as_json, curve_table, findings_table, joint_table
from ulr.warehouse.tables import Warehouse

DATE = ["--date", "2026-01-01"]
OPTIONS = {"pairs.method": "joint", "pairs.test_fraction": 0.2, "train.early_stopping_round": 5,
           "train.num_iterations": 30, "train.validation_fraction": 0.4}  # fmt: skip


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """Return the root of a log whose model is trained and evaluated, and its flags."""
    root = tmp_path_factory.mktemp("service")
    flags = simulate_log(root)
    flags += [flag for key, value in OPTIONS.items() for flag in ("--set", f"{key}={value}")]
    for command in (["pairs", *DATE], ["train"], ["evaluate", *DATE]):
        assert main([*command, *flags]) == 0
    return root, flags


def read(root, folder):
    return ds.dataset(str(root / "log" / folder), format="parquet", exclude_invalid_files=True)


def pages_of(root):
    return read(root, "log").to_table()


def shown_of(root):
    """Return the pages as one row per shown document, with features, in random order."""
    pages = pages_of(root).combine_chunks()
    lengths = pa.compute.list_value_length(pages["doc_ids"]).to_numpy()
    page = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.cumsum(lengths)
    shown = {
        "session": pages["session_id"].take(page),
        "query": pages["query_id"].take(page),
        "doc": pages["doc_ids"].combine_chunks().flatten(),
        "click": pages["clicks"].combine_chunks().flatten().cast(pa.int8()),
        "position": pa.array(np.arange(page.size) - np.repeat(ends - lengths, lengths) + 1),
    }
    features = read(root, "features").to_table()
    keys = list(zip(features["query_id"].to_pylist(), features["doc_id"].to_pylist(), strict=True))
    row = {key: n for n, key in enumerate(keys)}
    wanted = zip(shown["query"].to_pylist(), shown["doc"].to_pylist(), strict=True)
    matrix = np.stack(features["features"].to_numpy())[[row[key] for key in wanted]]
    order = pa.array(np.random.default_rng(3).permutation(page.size))
    return {n: column.take(order) for n, column in shown.items()}, matrix[order.to_numpy()]


def warehouse(root):
    return Warehouse(str(root / "warehouse"))


def model_text(root, method="joint"):
    house = warehouse(root)
    manifest = house.require("models", f"method={method}")
    return house.read_file(manifest, "model.txt")


def as_text(content):
    return content.decode() if isinstance(content, bytes) else content


def fitted(root, method="joint", **more):
    shown, x = shown_of(root)
    ranker = Ranker(
        method, str(root / "log/truth/examination.parquet"), n_estimators=30, num_leaves=4,
        learning_rate=0.2, min_child_weight=0.1, n_jobs=1, early_stopping_rounds=5,
        validation_fraction=0.4, test_fraction=0.2, **more,
    )  # fmt: skip
    return ranker.fit(
        x, shown["click"], qid=shown["session"], position=shown["position"],
        query=shown["query"], doc=shown["doc"], feature_name=[f"f{n + 1}" for n in range(8)],
    )  # fmt: skip


def test_a_model_has_the_bytes_of_the_services(log):
    root, _ = log
    ranker = fitted(root)
    assert ranker.booster_.model_to_string() == as_text(model_text(root))
    assert ranker.history_


@pytest.mark.parametrize(
    "changes",
    [
        {"method": "robust", "grouping": "query"},
        {"method": "pns"},
        {"method": "prs", "session_weight": "idcg"},
        {"method": "naive", "grouping": "query"},
        {"method": "unbiased-lambdamart"},
        {"method": "auto"},
    ],
    ids=lambda changes: changes["method"],
)
def test_models_of_other_methods_and_groupings_have_the_services_bytes(log, changes):
    root, flags = log
    settings = {f"pairs.{name}": value for name, value in changes.items()}
    more = [flag for key, value in settings.items() for flag in ("--set", f"{key}={value}")]
    for command in (["pairs", *DATE], ["train"]):
        assert main([*command, *flags, *more]) == 0
    ranker = fitted(root, **changes)
    text = as_text(model_text(root, changes["method"]))
    assert ranker.booster_.model_to_string() == text


def test_metrics_and_intervals_are_the_services(log):
    root, _ = log
    ranker = fitted(root)
    metrics = evaluate(
        pages_of(root), {"joint": ranker}, str(root / "log/truth/examination.parquet"),
        features=read(root, "features").to_table(), test_fraction=0.2,
    )  # fmt: skip
    published = warehouse(root).read("metrics", "stage=evaluate-method=joint")
    assert metrics.num_rows == published.num_rows > 20
    keys = ["subject", "against", "segment", "position", "name", "queries"]
    assert metrics.select(keys).equals(published.select(keys))
    for name in ("value", "lower", "upper", "standard_error"):
        ours, theirs = (t[name].to_numpy(zero_copy_only=False) for t in (metrics, published))
        np.testing.assert_allclose(ours, theirs, rtol=1e-9)


@pytest.mark.parametrize(
    "changes",
    [
        {"estimator": "combined", "min_clicks": 10, "min_coclicks": 20},
        {"estimator": "affine", "min_clicks": 10},
        {"estimator": "all_pairs", "min_clicks": 10},
        {"estimator": "regression_em", "regression_em": {"rounds": 3}},
        {"estimator": "given"},
    ],
    ids=lambda changes: changes["estimator"],
)
def test_propensities_are_the_services(engine, log, changes):
    root, _ = log
    theta = [1.0, 0.5, 0.4] if changes["estimator"] == "given" else None
    settings = load_settings(None).propensities
    values = settings.model_dump() | changes
    values["regression_em"] = settings.regression_em.model_dump() | changes.get("regression_em", {})
    values["given"] = {"theta": theta or [], "file": None}
    settings = type(settings).model_validate(values)
    dates = [dt.date(2026, 1, 1)]
    results = estimate_propensities(engine, warehouse(root), dates, settings)
    given = {} if theta is None else {"theta": theta}
    ours = propensities(pages_of(root), **changes, **given)
    assert isinstance(ours, PropensityEstimates)
    for table, theirs in (
        (ours.theta_table, curve_table(results)),
        (ours.psi_table, joint_table(results)),
        (ours.diagnostics, findings_table(results)),
    ):
        assert table.equals(theirs), as_json(results)
