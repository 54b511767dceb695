"""Every stage publishes the same bytes on the local engine, with any processes, and on Spark."""

from __future__ import annotations

import dataclasses
import datetime as dt
import hashlib
import json
import shutil
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from tests.support.engine_runs import published_by_all
from ulr.config.load import load_settings
from ulr.engine.local.engine import LocalEngine
from ulr.evaluation.ab.tasks import compare_rankers, pages_by_ranker, ranker_files
from ulr.groups.stage import build_groups
from ulr.judgment.counts import make_curves
from ulr.judgment.csv_text import Layout
from ulr.judgment.stage import write_judgments
from ulr.models.published import read_model
from ulr.models.stage import build_scores
from ulr.pairs.stage import build_pairs
from ulr.pipeline.events import Events
from ulr.pipeline.fit import Trial, fit
from ulr.pipeline.judge import evaluate_window
from ulr.propensity.examination import load_examination
from ulr.propensity.stage import build_propensities
from ulr.simulate.stage import simulate_log
from ulr.warehouse.schema import FEATURES, FEEDBACK, RANKER, page_schema, with_columns
from ulr.warehouse.tables import Warehouse

DATES = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]
WINDOW = f"{DATES[0]}..{DATES[1]}"
LEVELS = "log.feedback={click: 1, add_to_cart: 3, purchase: 9}"
CHANGES = [
    "simulate.queries=120", "simulate.pages_per_day=4000", "simulate.days=2",
    "simulate.features=8", "simulate.docs_per_query=8", "simulate.positions=5",
    "simulate.zipf=0.2", "simulate.drift=0.5", "simulate.pages_per_file=900",
    "simulate.feedback={add_to_cart: 0.4, purchase: 0.2}",
    "simulate.swaps=[{kind: single, fraction: 0.5}, {kind: pair, fraction: 0.2}]",
    "simulate.segments=[{name: desktop, fraction: 0.6, eta: 1}, "
    "{name: mobile, fraction: 0.4, eta: 1.5}]",
    "groups.partitions=3", "pairs.partitions=3", "evaluate.partitions=2", "score.partitions=3",
    "propensities.min_clicks=20", "propensities.min_coclicks=20", "pairs.test_fraction=0.3",
    "train.num_iterations=6", "train.checkpoint_every=3", "lightgbm.num_leaves=4",
    "lightgbm.min_sum_hessian_in_leaf=0.1",
]  # fmt: skip


@pytest.fixture(scope="module")
def engines(pool, spark_engine):
    """Engines that run everything in tasks."""
    one = LocalEngine(processes=1, small_bytes=-1)
    yield {"two processes": pool, "one process": one, "Spark": spark_engine}
    one.close()


def settings_of(log, *changes):
    own = [f"simulate.path={log}", f"log.path={log}/log", f"features.path={log}/features"]
    return load_settings(None, [*own, *CHANGES, *changes])


@pytest.fixture(scope="module")
def log(engine, tmp_path_factory):
    """The simulated log of all tests."""
    path = tmp_path_factory.mktemp("conformance") / "log"
    simulate_log(engine, settings_of(path).simulate)
    return path


def groups_of(engine, warehouse, date, settings):
    return build_groups(engine, warehouse, date, log=settings.log, groups=settings.groups)


def propensities_of(engine, warehouse, settings):
    return build_propensities(
        engine, warehouse, DATES, settings.propensities, features=settings.features
    )


def pairs_of(engine, warehouse, settings):
    return build_pairs(
        engine, warehouse, DATES, pairs=settings.pairs, features=settings.features,
        feedback=settings.log.feedback,
    )  # fmt: skip


@pytest.fixture(scope="module")
def houses(engine, log, tmp_path_factory):
    """Return a function that makes a warehouse with all tables up to one of them, once."""
    root, settings = tmp_path_factory.mktemp("houses"), settings_of(log)

    def groups(warehouse):
        for date in DATES:
            groups_of(engine, warehouse, date, settings)

    def model(warehouse):
        pairs_of(engine, warehouse, settings)
        fit(engine, [Trial("auto", warehouse, settings)], Events())

    steps = {
        "groups": groups,
        "propensities": lambda warehouse: propensities_of(engine, warehouse, settings),
        "models": model,
    }

    def house(last) -> Path:
        before = None
        for name, step in steps.items():
            folder = root / name
            if not folder.exists():
                if before:
                    shutil.copytree(before, folder)
                step(Warehouse(str(folder)))
            if name == last:
                break
            before = folder
        return folder

    return house


def test_simulate(engines, log, tmp_path):
    found = {}
    for name, engine in {"log": None, **engines}.items():
        path = log if engine is None else tmp_path / name
        if engine is not None:
            simulate_log(engine, settings_of(path).simulate)
        files = sorted(file for file in path.rglob("*") if file.is_file())
        found[name] = {
            str(file.relative_to(path)): hashlib.sha256(file.read_bytes()).hexdigest()
            for file in files
        }
    assert found["log"]
    for name in engines:
        assert found[name] == found["log"], name


def day_of(log) -> list[dict]:
    folder = ds.dataset(f"{log}/log/dt={DATES[0]}", exclude_invalid_files=True)
    rows = sorted(folder.to_table().to_pylist(), key=lambda row: row["session_id"])
    broken = [row | {"session_id": f"broken-{n}", "query_id": None} for n, row in enumerate(rows)]
    return [*rows, *broken[:9]]


def write_rows(folder, rows, extra=(), files=3):
    folder.mkdir(parents=True)
    schema = with_columns(page_schema, extra)
    for n in range(files):
        pq.write_table(pa.Table.from_pylist(rows[n::files], schema=schema), folder / f"{n}.parquet")
    return []


def as_pages(rows, folder):
    return write_rows(folder, rows)


def as_json(rows, folder):
    folder.mkdir(parents=True)
    for n in range(3):
        lines = [json.dumps(row, default=lambda time: time.isoformat()) for row in rows[n::3]]
        (folder / f"{n}.json").write_text("\n".join([*lines, '{"session_id": ']) + "\n")
    return ["log.format=json"]


def as_impressions(rows, folder):
    folder.mkdir(parents=True)
    shown = [
        {**row, "doc_id": doc, "position": k, "clicked": clicked}
        for row in rows
        for k, (doc, clicked) in enumerate(zip(row["doc_ids"], row["clicks"], strict=True), start=1)
    ]
    for n in range(3):
        names = ("session_id", "query_id", "shown_at", "doc_id", "position", "clicked", "segment",
                 "bucket", "swapped")  # fmt: skip
        part = [{name: row[name] for name in names} for row in shown[n::3]]
        pq.write_table(pa.Table.from_pylist(part), folder / f"{n}.parquet")
    return ["log.layout=impression"]


def with_duplicates(rows, folder):
    later = [row | {"shown_at": row["shown_at"] + dt.timedelta(seconds=1)} for row in rows[::9]]
    return write_rows(folder, [*rows, *rows[::7], *later])


def with_many_duplicates(rows, folder):
    return [*with_duplicates(rows, folder), "log.max_repeated_ids=0"]


def with_features(rows, folder):
    for number, row in enumerate(rows):
        own = [
            [float(len(doc) + int(doc[-1]) + k), float(number), None]
            for k, doc in enumerate(row["doc_ids"])
        ]
        row[FEATURES] = own
    return [*write_rows(folder, rows, [FEATURES]), "log.features=[a, b, c]"]


def with_rankers(rows, folder):
    for number, row in enumerate(rows):
        row[RANKER] = ("new", "old", "old", None)[number % 4]
    return write_rows(folder, rows, [RANKER])


def with_feedback(rows, folder):
    return [*write_rows(folder, rows, [FEEDBACK]), LEVELS]


FORMS = [as_pages, as_json, as_impressions, with_duplicates, with_many_duplicates, with_features,
         with_rankers, with_feedback]  # fmt: skip


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.__name__)
def test_groups(engines, log, tmp_path, form):
    changes = form(day_of(log), tmp_path / "form")
    settings = settings_of(log, f"log.path={tmp_path}/form", *changes)
    run = partial(groups_of, date=DATES[0], settings=settings)
    files = published_by_all(engines, tmp_path, run)
    tables = {file.partition("/")[0] for file in files}
    assert {"groups", "quarantine"} <= tables


ESTIMATORS = {
    "swaps": ["propensities.estimator=combined"],
    "harvesting": ["propensities.estimator=all_pairs"],
    "regression_em": ["propensities.estimator=regression_em", "propensities.regression_em.rounds=2",
                      "propensities.regression_em.trees=5"],
    "regression_em without features": ["propensities.estimator=regression_em",
                                       "propensities.regression_em.features=false",
                                       "propensities.regression_em.rounds=2"],
    "affine": ["propensities.estimator=affine"],
}  # fmt: skip


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_propensities(engines, houses, log, tmp_path, estimator):
    run = partial(propensities_of, settings=settings_of(log, *ESTIMATORS[estimator]))
    files = published_by_all(engines, tmp_path, run, base=houses("groups"))
    tables = {file.partition("/")[0] for file in files}
    assert {"propensities", "joint_propensities", "diagnostics"} <= tables


def test_propensities_of_levels(engines, log, tmp_path):
    settings = settings_of(log, LEVELS)

    def run(engine, warehouse):
        for date in DATES:
            groups_of(engine, warehouse, date, settings)
        propensities_of(engine, warehouse, settings)

    files = published_by_all(engines, tmp_path, run)
    assert any(file.startswith("level_propensities/") for file in files)


@pytest.mark.parametrize("method", ["joint", "auto"])
def test_pairs(engines, houses, log, tmp_path, method):
    settings = settings_of(log, f"pairs.method={method}")
    run = partial(pairs_of, settings=settings)
    files = published_by_all(engines, tmp_path, run, base=houses("propensities"))
    tables = {file.partition("/")[0] for file in files}
    assert {"pairs", "window", "metrics"} <= tables


def test_train_with_one_and_two_workers(engines, houses, log, tmp_path):
    models = []
    for workers in (1, 2):
        settings = settings_of(log, f"train.num_workers={workers}")

        def run(engine, warehouse, settings=settings):
            fit(engine, [Trial("auto", warehouse, settings)], Events(), force=True)

        base = tmp_path / f"base-{workers}"
        shutil.copytree(houses("models"), base)
        shutil.rmtree(base / "models")
        files = published_by_all(engines, tmp_path / str(workers), run, base=base)
        models.append(files["models/method=auto/model.txt"])
    assert models[0] == models[1]


def test_evaluate(engines, houses, log, tmp_path):
    settings = settings_of(log)

    def run(engine, warehouse):
        models = {"auto": read_model(warehouse, "auto")}
        evaluate_window(engine, warehouse, WINDOW, models, settings)

    files = published_by_all(engines, tmp_path, run, base=houses("models"))
    assert any(file.startswith("metrics/stage=evaluate") for file in files)


def test_judgments(engines, houses, tmp_path):
    warehouse, found = Warehouse(str(houses("propensities"))), {}
    pooled, segments = load_examination("warehouse", warehouse)
    for name, engine in engines.items():
        target = tmp_path / f"{name}.csv"
        write_judgments(
            engine, warehouse, DATES, str(target),
            curves=make_curves(pooled, segments, affine=False),
            layout=partial(Layout, bare=False, grades=0, spreadsheet=False),
        )  # fmt: skip
        found[name] = target.read_bytes()
    assert len(found["Spark"].splitlines()) > 100
    assert len(set(found.values())) == 1


def test_score(engines, houses, log, tmp_path):
    text = read_model(Warehouse(str(houses("models"))), "auto")

    def run(engine, warehouse):
        build_scores(
            engine, warehouse, features=settings_of(log).features, model=text, name="auto",
            partitions=3,
        )  # fmt: skip

    files = published_by_all(engines, tmp_path, run)
    assert len(files) == 3


def test_counts_of_an_ab_test(engine, engines, log, tmp_path):
    changes = with_rankers(day_of(log), tmp_path / "form")
    warehouse = Warehouse(str(tmp_path / "w"))
    groups_of(engine, warehouse, DATES[0], settings_of(log, f"log.path={tmp_path}/form", *changes))
    url, files = warehouse.storage.url, ranker_files(warehouse, DATES[0])
    found = []
    for own in engines.values():
        totals = compare_rankers(own, url, files, ("new", "old"), None)
        found.append((pages_by_ranker(own, url, files, None), repr(dataclasses.astuple(totals))))
    assert found[0][0].keys() == {"new", "old"}
    assert found[0] == found[1] == found[2]
