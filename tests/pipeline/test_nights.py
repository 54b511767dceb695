"""A night on a simulated log: once, again, from the middle, and where something is missing."""

import json
import re
from html import unescape
from pathlib import Path

import pytest

from tests.support.outline import Outline
from tests.support.registry_server import comparison, put_empty_database
from tests.support.table_hashes import table_hashes
from ulr.cli.main import main
from ulr.registry import Registry
from ulr.warehouse.lock import hold
from ulr.warehouse.storage import Storage
from ulr.warehouse.tables import Warehouse

FIRST, SECOND = ["--date", "2026-01-01"], ["--date", "2026-01-02"]


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    root = tmp_path_factory.mktemp("night")
    changes = {
        "warehouse.path": f"{root}/warehouse", "simulate.path": f"{root}/log",
        "simulate.queries": 60, "simulate.pages_per_day": 4000, "simulate.days": 2,
        "simulate.features": 8, "simulate.docs_per_query": 8, "simulate.positions": 4,
        "simulate.zipf": 0.2, "log.path": f"{root}/log/log",
        "features.path": f"{root}/log/features", "groups.partitions": 2, "pairs.partitions": 2,
        "pairs.test_fraction": 0.3, "evaluate.partitions": 2, "train.num_iterations": 4,
        "lightgbm.num_leaves": 4, "lightgbm.num_threads": 1, "mlflow.local_path": f"{root}/mlflow",
        "promote.min_effective_clicks": 10, "promote.min_effective_queries": 10,
        "promote.diagnostics": "ignore",
    }  # fmt: skip
    flags = [flag for key, value in changes.items() for flag in ("--set", f"{key}={value}")]
    put_empty_database(root / "mlflow")
    assert main(["simulate", *flags]) == 0
    return root, flags


def summary(root, date="2026-01-01"):
    return json.loads((root / "warehouse" / "nights" / f"{date}.json").read_text())


def statuses(root, date="2026-01-01"):
    return [stage["status"] for stage in summary(root, date)["stages"]]


def test_a_night_promotes_and_a_repeated_night_is_skipped(place):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    assert statuses(root) == ["done"] * 6
    assert summary(root)["outcome"] == "promoted"
    (model,) = (root / "warehouse" / "models").rglob("model.txt")
    assert "\nfeature_names=f1 f2 f3 f4 f5 f6 f7 f8\n" in model.read_text()
    before = table_hashes(root / "warehouse")
    assert main(["nightly", *FIRST, *flags]) == 0
    assert statuses(root) == ["skipped"] * 6
    assert summary(root)["outcome"] == "champion"
    assert table_hashes(root / "warehouse") == before


def test_several_nights_end_in_a_table_with_the_baseline(place, capsys):
    root, flags = place
    both = ["--date", "2026-01-01..2026-01-02", "--set", "nightly.baselines=[naive]"]
    assert main(["nightly", *both, *flags]) == 0
    out = capsys.readouterr().out
    found = summary(root, "2026-01-02")
    assert found["outcome"] in ("promoted", "kept")
    assert re.search(r"snips_dcg .* the champion", found["stages"][-1]["message"])
    judged = found["stages"][4]["details"]
    assert judged["metrics"].keys() == {"auto", "naive", "logging"}
    assert judged["pages"] == 8000
    for date, pages in (("2026-01-01", "4,000"), ("2026-01-02", "8,000")):
        (line,) = [x for x in out.splitlines() if f"{date} " in x and pages in x]
        for name in ("auto", "naive"):
            value = summary(root, date)["stages"][4]["details"]["metrics"][name]["ndcg_at_10"]
            assert f"{value:.4f}" in line
    assert main(["registry", "list", *flags]) == 0
    listed = capsys.readouterr().out
    assert "2026-01-01..2026-01-02" in listed
    assert "naive" not in listed


def test_the_page_over_all_nights_is_written_by_nights_and_by_report(place, capsys):
    root, flags = place
    assert main(["nightly", "--date", "2026-01-01..2026-01-02", *flags]) == 0
    index = root / "warehouse" / "reports" / "index.html"
    assert f"nights -> {index}" in capsys.readouterr().out
    written = index.read_bytes()
    outline = Outline(written.decode())
    assert not outline.missing
    table = outline.section("nights_table")
    links = [e["href"] for row in outline.find("tr", table) for e in outline.find("a", row)]
    assert links[-2:] == ["2026-01-02.html", "2026-01-01.html"]
    for run in ("2026-01-01", "index"):
        index.unlink()
        assert main(["report", run, "--json", *flags]) == 0
        assert json.loads(capsys.readouterr().out)["index"] == str(index)
        assert index.read_bytes() == written


def test_a_night_writes_the_views_of_its_tables(place):
    duckdb = pytest.importorskip("duckdb")
    root, flags = place
    views = ["--set", f"warehouse.views={{duckdb: {root}/views/tables.sql}}"]
    assert main(["nightly", *FIRST, *flags, *views]) == 0
    connection = duckdb.connect()
    connection.execute((root / "views" / "tables.sql").read_text())
    manifests = [Warehouse(f"{root}/warehouse").require("groups", name)
                 for name in Warehouse(f"{root}/warehouse").partitions("groups")]  # fmt: skip
    rows = sum(manifest.counts["groups"] for manifest in manifests)
    assert connection.execute("SELECT count(*) FROM groups").fetchone() == (rows,)


def test_the_first_failed_night_is_the_last(place, capsys):
    root, flags = place
    later = ["--date", "2026-01-01..2026-01-05"]
    assert main(["nightly", *later, *flags]) == 2
    assert "2026-01-03" in capsys.readouterr().err
    assert not (root / "warehouse" / "nights" / "2026-01-04.json").exists()


def test_a_night_starts_at_the_given_stage(place):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    assert main(["nightly", *FIRST, *flags, "--from-stage", "evaluate"]) == 0
    assert statuses(root)[:4] == ["not run"] * 4


def test_missing_features_end_the_night_and_keep_the_tables(place, capsys):
    root, flags = place
    bare = [*flags, "--set", "features.path=nowhere", "--set",
            f"warehouse.path={root}/bare"]  # fmt: skip
    assert main(["nightly", *FIRST, *bare]) == 2
    assert "no feature files at 'nowhere'" in capsys.readouterr().err
    found = json.loads((root / "bare" / "nights" / "2026-01-01.json").read_text())
    assert [s["status"] for s in found["stages"]][:3] == ["done", "done", "failed"]
    assert found["exit_code"] == 2
    index = Outline((root / "bare" / "reports" / "index.html").read_text())
    (night,) = index.find("tr", index.section("nights_table"))[1:]
    assert "2026-01-01✕ failed" in night["text"].replace(" ✕", "✕")
    assert (
        "2026-01-01 pairs: no feature files at 'nowhere'" in index.section("nights_table")["text"]
    )
    page = unescape((root / "bare" / "reports" / "2026-01-01.html").read_text())
    assert "The night failed in stage pairs" in page
    assert "Stage pairs failed: no feature files at 'nowhere'" in page
    assert "Stage train did not run: the night failed in pairs." in page
    assert "theta of all traffic, with 95% intervals" in page  # the estimates were published


def test_the_page_of_a_night_is_stored_attached_and_can_be_rendered_again(
    place, capsys, monkeypatch
):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    page = root / "warehouse" / "reports" / "2026-01-01.html"
    assert f"report -> {page}" in capsys.readouterr().out
    made = page.read_bytes()
    assert b'class="missing"' not in made
    assert "Crosses are the simulator's true values" in unescape(made.decode())
    (artifact,) = [f for f in (root / "mlflow").rglob("report.html") if f.read_bytes() == made]
    assert artifact.parent.name == "artifacts"
    names = {path.name for path in artifact.parent.iterdir()}
    assert {"importance.json", "importance.svg"} <= names
    (row, *_) = (outline := Outline(made.decode())).find("tr", outline.section("importance"))[1:]
    assert re.match(r"f\d", row["text"])
    page.unlink()
    assert main(["report", "2026-01-01", *flags]) == 0
    assert page.read_bytes() == made
    opened = []
    monkeypatch.setattr("webbrowser.open", lambda url: opened.append(url) or True)
    assert main(["report", "2026-01-01", "--open", *flags]) == 0
    assert opened == [page.as_uri()]
    assert main(["report", "2026-01-09", *flags]) == 2
    assert "no report 2026-01-09" in (message := capsys.readouterr().err)
    assert "available: 2026-01-01" in message


@pytest.mark.parametrize("cut", [7, None])
def test_a_night_rebuilds_damaged_groups_of_its_window(place, cut):
    root, flags = place
    assert main(["nightly", "--date", "2026-01-01..2026-01-02", *flags]) == 0
    before = table_hashes(root / "warehouse")
    damaged = Path(Warehouse(f"{root}/warehouse").files("groups", "dt=2026-01-01")[0])
    content = damaged.read_bytes()
    damaged.unlink()
    if cut is not None:
        damaged.write_bytes(content[:-cut])
    assert main(["nightly", *SECOND, *flags]) == 0
    message = summary(root, "2026-01-02")["stages"][0]["message"]
    assert f"groups of 2026-01-01 rebuilt, because {damaged}" in message
    assert table_hashes(root / "warehouse") == before


def test_concurrent_nights_are_refused(place, capsys):
    root, flags = place
    with hold(Storage(f"{root}/warehouse"), "nights", "x"):
        assert main(["nightly", *FIRST, *flags]) == 1
    assert "this warehouse's night is being written by process" in capsys.readouterr().err


def test_holding_out_a_date_needs_an_earlier_one(place, capsys):
    root, flags = place
    alone = [*flags, "--set", "evaluate.holdout=time", "--set", f"warehouse.path={root}/alone"]
    assert main(["nightly", *FIRST, *alone]) == 2
    assert "no earlier date has groups to train on" in capsys.readouterr().err


def test_a_rerun_reads_no_log_changes_no_table_and_builds_only_what_is_missing(place, capsys):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    before = table_hashes(root / "warehouse")
    command = ["rerun", "--from", "2026-01-01", "--to", "2026-01-01", *flags,
               "--set", "log.path=nowhere", "--name", "other"]  # fmt: skip
    assert main([*command, "--methods", "naive"]) == 0
    capsys.readouterr()
    assert main([*command, "--methods", "joint,naive"]) == 0
    out = capsys.readouterr().out
    assert "pairs of joint: done" in out
    assert "pairs of naive: unchanged, skipped" in out
    assert "train naive: unchanged, skipped" in out
    assert "lead of joint" in out
    naive = next(line for line in out.splitlines() if line.startswith("naive "))
    assert len(naive.split("(")) > 3
    after = table_hashes(root / "warehouse")
    assert {name: after[name] for name in before} == before
    page = (root / "warehouse" / "reports" / "rerun-other.html").read_text()
    assert "The best of 2 methods is" in page
    assert 'class="missing"' not in page


def models(folder):
    return {str(f.parent.parent.relative_to(folder)): f.read_bytes()
            for f in folder.rglob("model.txt")}  # fmt: skip


def test_variants_are_compared_and_concurrent_trainings_give_the_same_models(place, capsys):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    command = ["rerun", "--from", "2026-01-01", "--to", "2026-01-01", *flags,
               "--set", "train.early_stopping_round=0", "--methods", "robust,naive",
               "--variant", "deep:lightgbm.num_leaves=7",
               "--variant", "floor:pairs.propensity_floor=0.5,train.num_iterations=3"]  # fmt: skip
    assert main([*command, "--name", "one", "--set", "train.max_concurrent_runs=1"]) == 0
    capsys.readouterr()
    assert main([*command, "--name", "both"]) == 0
    out = capsys.readouterr().out
    names = [f"{m}{v}" for v in ("", "@deep", "@floor") for m in ("robust", "naive")]
    assert all(f"train {name}: " in out for name in names)
    # `deep` only trains otherwise: it takes the pairs that are there.
    built = [line.split()[2] for line in out.splitlines() if line.startswith("pairs of ")]
    assert built == ["robust:", "naive:", "robust@floor:", "naive@floor:"]
    one, both = (models(root / "warehouse" / "reruns" / n) for n in ("one", "both"))
    assert len(one) == len(names)
    assert len(set(one.values())) == len(names)
    assert one == both
    kept = json.loads((root / "warehouse" / "reports" / "rerun-both.json").read_text())
    assert kept["variants"].keys() == set(names[2:])
    assert kept["variants"]["naive@deep"] == {"lightgbm.num_leaves": "7"}


def test_a_comparison_is_one_mlflow_run_with_a_child_run_per_model(place):
    root, flags = place
    assert main(["nightly", *FIRST, *flags]) == 0
    command = ["rerun", "--from", "2026-01-01", "--to", "2026-01-01", *flags, "--name", "runs",
               "--variant", "short:train.num_iterations=2"]  # fmt: skip
    assert main(command) == 0
    assert main(command) == 0  # and once only
    registry = Registry(f"{root}/mlflow", experiment="ulr", name="ulr-ranker")
    runs = registry.client.search_runs([registry.experiment_id()])
    (parent,) = [r for r in runs if r.info.run_name.startswith("rerun runs ")]
    children = [r for r in runs if r.data.tags.get("mlflow.parentRunId") == parent.info.run_id]
    rounds = {r.info.run_name.split()[0]: r.data.params["train.num_iterations"] for r in children}
    assert rounds == {"auto": "4", "auto@short": "2"}
    assert all(r.data.metrics["ndcg_at_10"] > 0 for r in children)
    found = comparison(registry, parent.info.run_id)
    assert {"auto", "auto@short", "logging"} == set(found["ranking"])


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (["--methods", "best"], "best is no method"),
        (["--variant", "deep"], "expected NAME:KEY=VALUE"),
        (["--variant", "a:groups.partitions=2"], "groups.partitions is the same for all"),
        (["--variant", "a:pairs.test_fraction=0.5"], "pairs.test_fraction is the same for all"),
        (["--variant", "a/b:train.num_iterations=2"], "expected letters, digits"),
        (
            ["--variant", "a:train.num_iterations=2", "--variant", "a:train.num_iterations=3"],
            "given twice",
        ),
        (["--variant", "a:train.nosuch=2"], "unknown key train.nosuch"),
    ],
)
def test_a_mistake_in_the_options_of_a_rerun_is_one_line(capsys, tmp_path, flags, words):
    where = ["--set", f"warehouse.path={tmp_path}"]
    assert main(["rerun", "--from", "2026-01-01", "--to", "2026-01-01", *where, *flags]) == 2
    assert words in capsys.readouterr().err
