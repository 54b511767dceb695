"""The stage evaluate, and the commands evaluate, registry, promote and score after it."""

import json
import re

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.evaluation_plans import evaluation_plan
from tests.support.pair_inputs import EXAMINATION, FEATURES, gather, write_window_inputs
from tests.support.registry_server import put_empty_database
from tests.support.simulated_log import simulate_log
from ulr.cli.main import main
from ulr.evaluation.stage import evaluate_models
from ulr.evaluation.tasks import evaluate_queries
from ulr.features.join import join_features
from ulr.features.split import in_split
from ulr.warehouse.schema import metrics_schema
from ulr.warehouse.tables import Warehouse

DATE = ["--date", "2026-01-01"]


def test_any_number_of_partitions_gives_the_totals_of_one_process(engine, tmp_path):
    inputs, groups = write_window_inputs(tmp_path)
    plan = evaluation_plan(EXAMINATION, max_label=2)
    want = evaluate_queries(join_features(groups, FEATURES), {}, plan).with_propensity_errors(None)
    got = evaluate_models(engine, gather(engine, inputs, f"{tmp_path}/window", 3), {}, plan)
    assert got.sums.keys() == want.sums.keys()
    for key, sums in want.sums.items():
        assert got.sums[key].tolist() == pytest.approx(sums.tolist())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    root = tmp_path_factory.mktemp("jobs")
    flags = [
        *simulate_log(root),
        "--set",
        "pairs.test_fraction=0.3",
        "--set",
        "evaluate.partitions=2",
        "--set",
        "pairs.method=joint",
    ]
    for method in ("naive", "joint"):
        with_method = [*flags, "--set", f"pairs.method={method}"]
        assert main(["pairs", *DATE, *with_method]) == 0
        assert main(["train", *with_method]) == 0
    return root, flags


def test_evaluate_publishes_once_and_prints_the_same_results_again(trained, capsys):
    root, flags = trained
    command = ["evaluate", *DATE, *flags, "--model", "joint", "--model", "naive"]
    assert main(command) == 0
    out = capsys.readouterr().out
    assert all(
        text in out
        for text in ("joint", "logging", "joint - naive", "p=", "propensities taken as exact")
    )
    assert main(command) == 0
    again = capsys.readouterr().out
    assert "unchanged, skipped" in again
    assert out.partition("\n")[2] in again  # the first line names the engine
    warehouse = Warehouse(f"{root}/warehouse")
    files = warehouse.files("metrics", "stage=evaluate-method=joint")
    table = pa.concat_tables(pq.read_table(f) for f in files)
    assert table.schema == metrics_schema
    assert {"ndcg_at_10", "snips_mean_relevant_rank", "pair_loss"} <= set(table["name"].to_pylist())


def test_held_out_queries_are_not_in_the_pairs(trained):
    root, _ = trained
    files = Warehouse(f"{root}/warehouse").files("pairs", "method=joint")
    names = pa.concat_arrays([c for f in files for c in pq.read_table(f)["query_id"].chunks])
    assert in_split(names, 0.3, "train").all()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (["--set", "evaluate.holdout=time"], "was trained on 2026-01-01"),
        (["--set", "pairs.test_fraction=0"], "no queries are held out"),
        (["--set", "pairs.test_fraction=0.5"], "trained with pairs.test_fraction=0.3"),
        (["--model", "prs"], "has no model of method prs; it has joint"),
        (["--model", "absent.txt"], "expected a method"),
    ],
)
def test_an_evaluation_that_is_not_possible_is_a_clear_error(trained, capsys, change, message):
    _, flags = trained
    assert main(["evaluate", *DATE, *flags, *change]) == 2
    assert message in capsys.readouterr().err


def test_the_model_is_registered_promoted_once_and_listed(trained, capsys):
    root, flags = trained
    put_empty_database(root / "mlflow")
    flags = [*flags, "--set", f"mlflow.local_path={root}/mlflow", "--set",
             "promote.min_effective_clicks=10", "--set",
             "promote.min_effective_queries=10"]  # fmt: skip
    assert main(["evaluate", *DATE, *flags]) == 0
    assert main(["registry", "send", *flags]) == 0
    assert "joint 2026-01-01..2026-01-01 registered, version 1" in capsys.readouterr().out
    assert main(["promote", *DATE, *flags]) == 0
    assert "version 1 is the new champion" in capsys.readouterr().out
    assert main(["promote", *DATE, *flags]) == 0
    assert "version 1 is the champion already" in capsys.readouterr().out
    naive = [*flags, "--set", "pairs.method=naive"]
    by_time = [*naive, "--set", "evaluate.holdout=time"]
    assert main(["promote", *DATE, *by_time]) == 2
    assert "was trained on 2026-01-01" in capsys.readouterr().err
    assert main(["promote", *DATE, *naive, "--json"]) == 0
    decision = json.loads(capsys.readouterr().out)
    assert set(decision) == {"outcome", "version", "champion", "verdict"}  # without the totals
    assert re.match(r"snips_dcg .* the champion", decision["verdict"]["reasons"][0])
    assert main(["registry", "list", *flags]) == 0
    out = capsys.readouterr().out
    assert all(word in out for word in ("champion", "joint", "naive"))
    assert main(["promote", *DATE, *naive, "--force", "a trial"]) == 0
    assert main(["promote", "--rollback", "it is over", *flags]) == 0
    assert main(["registry", "list", *flags]) == 0
    (last,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith("2 "))
    assert last.endswith("rolled back: it is over")
    assert main(["registry", "sync", *flags]) == 0
    assert "0 models are queued" in capsys.readouterr().out


def test_the_champion_scores_a_features_table_and_rejects_another_width(trained, capsys):
    root, flags = trained
    put_empty_database(root / "mlflow-2")
    flags = [*flags, "--set", f"mlflow.local_path={root}/mlflow-2", "--set", "score.partitions=2"]
    assert main(["promote", *DATE, *flags, "--force", "a test"]) == 0
    command = ["score", *flags, "--model", "models:/ulr-ranker@champion"]
    assert main(command) == 0
    assert main(command) == 0
    assert "unchanged, skipped (640 documents of 80 queries" in capsys.readouterr().out
    warehouse = Warehouse(f"{root}/warehouse")
    table = pa.concat_tables(pq.read_table(f) for f in warehouse.files("scores"))
    by_query = table.group_by("query_id", use_threads=False).aggregate([("score", "list")])
    assert all(s == sorted(s, reverse=True) for s in by_query["score_list"].to_pylist())
    narrow = {"query_id": ["q"], "doc_id": ["d"], "features": [[1.0, 2.0]]}
    pq.write_table(pa.table(narrow), root / "narrow.parquet")
    assert main([*command, "--features", f"{root}/narrow.parquet"]) == 2
    assert "was trained on 8 features and these rows have 2" in capsys.readouterr().err
    assert main(["score", *flags, "--model", "models:/ulr-ranker@absent"]) == 2
    assert "no model models:/ulr-ranker@absent" in capsys.readouterr().err
