"""The pairs stage on Spark, and the commands around it on a simulated log."""

import lightgbm as lgb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.pair_inputs import EXAMINATION, FEATURES, gather, write_window_inputs
from tests.support.simulated_log import simulate_log
from ulr.cli.main import main
from ulr.features.join import join_features
from ulr.features.window import load_window
from ulr.models.linear import linear_weights
from ulr.pairs.config import make_pair_config
from ulr.pairs.prior import co_click_sums, prior_variance
from ulr.pairs.table import build_pair_table
from ulr.pairs.tasks import estimate_variance, write_pairs
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

CONFIG = make_pair_config("joint", EXAMINATION, co_click_variance=1.0)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Groups of two dates and features in two files, and all groups."""
    root = tmp_path_factory.mktemp("tables")
    return root, *write_window_inputs(root)


def written(engine, root, inputs, partitions):
    out = f"{root}/pairs-{partitions}"
    window = gather(engine, inputs, f"{root}/window-{partitions}", partitions)
    report = write_pairs(engine, window, CONFIG, pairs_url=out, test_fraction=0.0)
    files = sorted(f.path for f in Storage(out).files())
    parts = [pq.read_table(f"{out}/{name}") for name in files]
    return pa.concat_tables(parts).sort_by("query_id"), parts, report


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_table_does_not_depend_on_the_number_of_partitions(engine, tables, partitions):
    root, inputs, groups = tables
    table, parts, report = written(engine, root, inputs, partitions)
    want, counted = build_pair_table(join_features(groups, FEATURES), CONFIG)
    assert table.schema == want.schema
    assert table.to_pylist() == want.to_pylist()
    names = [set(p["query_id"].to_pylist()) for p in parts]
    assert sum(map(len, names)) == len(set.union(*names))  # a query lives in one file
    bytes_written = report.counts.pop("bytes")
    assert bytes_written > 0
    assert report.counts == +counted.counts
    size = report.health.weight.size
    np.testing.assert_allclose(report.health.weight, counted.health.weight[:size])


@pytest.mark.parametrize("partitions", [1, 3])
def test_the_prior_on_co_clicks_does_not_depend_on_the_number_of_partitions(
    engine, tables, partitions
):
    root, inputs, groups = tables
    psi = make_pair_config("joint", EXAMINATION).psi
    shown = load_window(join_features(groups, FEATURES), psi.shape[-1])
    sums = co_click_sums(shown.histograms, shown.tables_of({}), psi)
    window = gather(engine, inputs, f"{root}/prior-{partitions}", partitions)
    variance = estimate_variance(engine, window, psi, {}, test_fraction=0.0)
    assert variance == (prior_variance(sums),)  # of the only level


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """A small log, its groups, and the flags that name them."""
    root = tmp_path_factory.mktemp("jobs")
    return root, simulate_log(root)


def test_pairs_and_train_publish_once_and_skip_unchanged_inputs(simulated, capsys):
    root, flags = simulated
    for method in ("joint", "unbiased-lambdamart", "dla"):
        method_flags = [*flags, "--set", f"pairs.method={method}"]
        for job, dates in (("pairs", ["--date", "2026-01-01"]), ("train", [])):
            assert main([job, *dates, *method_flags]) == 0
            assert "skipped" not in capsys.readouterr().out
            assert main([job, *dates, *method_flags]) == 0
            assert "unchanged, skipped" in capsys.readouterr().out
    warehouse = Warehouse(f"{root}/warehouse")
    learning = ["method=dla", "method=unbiased-lambdamart"]
    assert warehouse.partitions("pairs") == [learning[0], "method=joint", learning[1]]
    records = []
    for partition in learning:
        folder = warehouse.current("models", partition).folder
        model = f"{root}/warehouse/models/{partition}/{folder}"
        assert lgb.Booster(model_file=f"{model}/model.txt").num_trees() > 0
        records.append(Storage(model).read_json("record.json"))
    dla, unbiased = records
    assert len(unbiased["t_plus"]) == len(unbiased["t_minus"]) == len(dla["position_bias"]) == 6
    assert unbiased["position_bias"] is dla["t_plus"] is None
    health = warehouse.files("metrics", "stage=pairs-method=joint")
    names = pq.read_table(health[0])["name"].to_pylist()
    assert {
        "effective_clicks",
        "effective_queries",
        "effective_pairs",
        "share_clipped",
        "largest_weight",
    } <= set(names)


def test_a_high_unclick_bias_is_a_warning_in_the_output_the_record_and_the_log(
    simulated, capsys, caplog, monkeypatch
):
    monkeypatch.setattr("ulr.training.biases.MAX_UNCLICK_BIAS", 0.5)  # t- of position 1 is 1
    root, flags = simulated
    flags = [*flags, "--set", "pairs.method=unbiased-lambdamart"]
    assert main(["pairs", "--date", "2026-01-01", *flags]) == 0
    capsys.readouterr()
    assert main(["train", "--force", *flags]) == 0
    line = next(row for row in capsys.readouterr().out.splitlines() if "warning: " in row)
    warning = line.partition("warning: ")[2]
    assert warning.startswith("t- of position ")
    assert f"unbiased-lambdamart: {warning}" in caplog.text
    current = Warehouse(f"{root}/warehouse").current("models", "method=unbiased-lambdamart")
    model = f"{root}/warehouse/models/method=unbiased-lambdamart/{current.folder}"
    assert Storage(model).read_json("record.json")["warnings"][0] == warning


def test_a_linear_ranker_is_trained_by_two_workers_and_evaluated(simulated, capsys):
    root, flags = simulated
    flags = [*flags, "--set", "pairs.method=ips-all", "--set", "train.ranker=linear",
             "--set", "train.linear_loss=hinge"]  # fmt: skip
    assert main(["pairs", "--date", "2026-01-01", *flags]) == 0
    texts = []
    for workers in (1, 2):
        capsys.readouterr()
        assert main(["train", "--force", *flags, "--set", f"train.num_workers={workers}"]) == 0
        assert "train ips-all: linear model of 8 weights on " in capsys.readouterr().out
        current = Warehouse(f"{root}/warehouse").current("models", "method=ips-all")
        texts.append(Storage(f"{root}/warehouse/models/method=ips-all/{current.folder}")
                     .read_text("model.txt"))  # fmt: skip
    assert texts[0] == texts[1]
    weights, _ = linear_weights(texts[0])
    assert np.count_nonzero(weights) == 8
    assert main(["evaluate", "--date", "2026-01-01", "--model", "ips-all", *flags]) == 0
    assert "ndcg_at_10" in capsys.readouterr().out.lower().replace("@", "_at_")


def test_compare_prints_the_fraction_of_the_gap(simulated, capsys):
    _, flags = simulated
    assert main(["compare", "--date", "2026-01-01", *flags]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("naive", "joint", "labels", "100%"))


def test_pairs_of_a_date_without_groups_are_an_error(simulated, capsys):
    _, flags = simulated
    assert main(["pairs", "--date", "2026-02-01", *flags]) == 2
    assert "has no groups dt=2026-02-01" in capsys.readouterr().err
