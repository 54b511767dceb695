from __future__ import annotations

import datetime as dt
import json
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support import propensity_loops as loops
from tests.support.random_groups import publish, random_groups, write_files
from tests.support.session_groups import counts_by_segment, sessions_of
from ulr.config.load import load_settings
from ulr.errors import UserError
from ulr.features.files import find_features
from ulr.groups.window import window_dates
from ulr.propensity.daily.stage import build_tallies
from ulr.propensity.inputs import files_read
from ulr.propensity.segments import estimate_segments
from ulr.propensity.stage import (
    _latest_features,
    build_propensities,
    estimate_propensities,
    plain_rates,
)
from ulr.propensity.swap_counts import SwapCounts, counts_of
from ulr.propensity.tables import as_json
from ulr.propensity.tasks import GroupFiles, em_exposures, harvest_table
from ulr.warehouse.schema import (
    joint_propensities_schema,
    propensities_schema,
    swap_counts_schema,
)
from ulr.warehouse.tables import Warehouse

DATES = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]


def settings_of(*changes):
    fast = ["propensities.min_clicks=20", "propensities.min_coclicks=20"]
    return load_settings(None, [*fast, *changes]).propensities


@pytest.fixture(scope="module")
def rows():
    return random_groups(np.random.default_rng(0), 240)


@pytest.fixture(scope="module")
def files(rows, tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("groups"), rows)


def test_arms_counted_from_files_equal_a_loop_over_sessions(engine, rows, tmp_path):
    house = Warehouse(str(tmp_path))
    publish(house, DATES[0], rows, parts=3)
    table = build_tallies(engine, house, DATES[:1]).swap_counts(10)
    counts = counts_by_segment(table, 4)
    for segment in ("desktop", "mobile"):
        for name in ("1:2", "1:3", "1:4"):
            sessions = [
                s
                for row in rows
                if (row["segment"], row["bucket"], row["swapped"]) == (segment, name, True)
                for s in sessions_of(row)
            ]
            arm = counts[segment].buckets[name].swapped
            assert arm.sessions == len(sessions)
            assert arm.co_clicks.tolist() == loops.arm_counts(sessions, 4)[0]


def groups_of(files, days=1):
    numbered = [(number % days, file) for number, file in enumerate(files)]
    return GroupFiles(files[0].rpartition("/")[0], numbered)


def seen_documents(rows, keep=lambda row: True):
    seen = {}
    for row in rows:
        if keep(row):
            for clicks in sessions_of(row):
                for k, (doc, c) in enumerate(zip(row["doc_ids"], clicks, strict=True), start=1):
                    where = seen.setdefault((row["segment"], row["query_id"], doc), {})
                    old = where.get(k, (0, 0))
                    where[k] = (old[0] + c, old[1] + 1)
    return seen


@pytest.mark.parametrize("weight", ["pooled", "document"])
def test_harvest_table_equals_a_loop_over_documents(engine, rows, files, weight):
    table = harvest_table(engine, groups_of(files), max_position=10, blocks=4, weight=weight)
    got: dict[tuple[int, int], list[float]] = {}
    for row in table.to_pylist():
        entry = got.setdefault((row["k"], row["l"]), [0.0, 0.0])
        entry[0] += row["clicks"]
        entry[1] += row["impressions"]
    expected = loops.harvest_pairs(seen_documents(rows), weight)
    assert set(got) == set(expected)
    for pair, values in expected.items():
        assert got[pair] == pytest.approx(values)


def test_harvest_table_compares_within_and_between_the_days_of_the_files(engine, rows, files):
    days = groups_of(files, days=2)
    table = harvest_table(engine, days, max_position=10, blocks=4, weight="pooled")
    seen = {}
    for i in range(len(files)):
        for document, places in seen_documents(rows[i :: len(files)]).items():
            for k, (clicks, impressions) in places.items():
                where = seen.setdefault(document, {})
                old = where.get((i % 2, k), (0, 0))
                where[i % 2, k] = (old[0] + clicks, old[1] + impressions)
    got = {}
    for row in table.to_pylist():
        entry = got.setdefault((row["k"], row["l"]), [0.0, 0.0])
        entry[0] += row["within"]
        entry[1] += row["between"]
    expected = loops.day_pairs(seen)
    assert set(got) == set(expected)
    for pair, values in expected.items():
        assert got[pair] == pytest.approx(values)


def test_sums_over_documents_have_the_same_bits_in_any_row_order(engine, pool, tmp_path):
    rows = random_groups(np.random.default_rng(5), 400)
    results = []
    for own, parts in ((engine, 1), (engine, 5), (pool, 4)):
        folder = tmp_path / str(parts)
        folder.mkdir()
        files = write_files(folder, rows[:: 1 if parts == 1 else -1], parts)
        groups, most = groups_of(files), {"max_position": 10, "blocks": 4}
        em = em_exposures(own, groups, queries=100, features=None, **most)
        results.append(
            [
                harvest_table(own, groups, weight="pooled", **most),
                (em.document.tolist(), em.position.tolist(), em.clicks.tolist()),
            ]
        )
    assert results[0] == results[1] == results[2]


def test_a_repeated_feature_row_counts_once_and_another_length_is_an_error(
    engine, rows, files, tmp_path
):
    names = sorted({(row["query_id"], doc) for row in rows for doc in row["doc_ids"]})
    twice = [{"query_id": q, "doc_id": d, "features": [1.0, 2.0]} for q, d in names] * 2
    path = tmp_path / "features.parquet"

    def read():
        source = find_features(str(path))
        counted = {"max_position": 10, "queries": 100, "blocks": 4}
        return em_exposures(engine, groups_of(files), features=source, **counted)

    pq.write_table(pa.Table.from_pylist(twice), path)
    exposures = read()
    assert exposures.features.shape == (len(names), 2)
    total = sum(sum(row["counts"]) * 4 for row in rows)
    assert exposures.impressions.sum() == total
    assert exposures.ignored_documents == 0
    pq.write_table(pa.Table.from_pylist(twice[1:-1]), path)  # still one row of each
    assert read().ignored_documents == 0
    pq.write_table(pa.Table.from_pylist(twice[3 : len(names)]), path)
    fewer = read()
    assert fewer.ignored_documents == 3
    assert fewer.ignored_impressions == total - fewer.impressions.sum() > 0
    pq.write_table(pa.Table.from_pylist([twice[0] | {"features": [1.0]}, *twice[1:]]), path)
    with pytest.raises(UserError, match="one length for all"):
        read()


@pytest.fixture
def warehouse(tmp_path):
    house = Warehouse(str(tmp_path))
    rng = np.random.default_rng(1)
    for date in DATES:
        publish(house, date, random_groups(rng, 400))
    return house


def test_theta_and_psi_are_published_and_an_unchanged_window_is_skipped(engine, warehouse):
    settings = settings_of()
    outcome = build_propensities(engine, warehouse, DATES, settings)
    assert [r.segment for r in outcome.results] == [None, "desktop", "mobile"]
    (file,) = warehouse.files("propensities")
    curve = pq.read_table(file)
    assert curve.schema.equals(propensities_schema)
    assert curve.num_rows == 3 * 4
    assert curve["theta"][0].as_py() == 1.0
    (file,) = warehouse.files("joint_propensities")
    joint = pq.read_table(file)
    assert joint.schema.equals(joint_propensities_schema)
    assert joint.num_rows == 3 * 6
    report = as_json(outcome.results)
    assert len(report["theta"]) == 4
    json.dumps(report, allow_nan=False)

    again = build_propensities(None, warehouse, DATES, settings)
    assert again.skipped


def test_the_significance_level_is_divided_by_the_number_of_curves(engine, tmp_path, monkeypatch):
    """Otherwise twenty segments of a clean log warn in one run of three."""
    rows = random_groups(np.random.default_rng(6), 200)
    levels = []
    monkeypatch.setattr(
        "ulr.propensity.estimate.estimate_segments",
        lambda traffic, segments, settings: (
            levels.append(settings.significance) or estimate_segments(traffic, segments, settings)
        ),
    )
    settings = settings_of("propensities.significance=0.03", "propensities.test_trust=false")
    house = Warehouse(str(tmp_path))
    publish(house, DATES[0], rows, parts=3)
    estimate_propensities(engine, house, DATES[:1], settings)
    assert levels == [0.03 / 3]


@pytest.mark.parametrize("estimator", ["all_pairs", "pivot", "adjacent", "affine", "regression_em"])
def test_every_estimator_runs_from_groups_to_curve(engine, warehouse, estimator):
    settings = settings_of(
        f"propensities.estimator={estimator}",
        "propensities.regression_em.features=false",
        "propensities.segments=false",
    )
    (result,) = estimate_propensities(engine, warehouse, DATES, settings)
    assert result.curve.positions == 4
    assert result.curve.theta[0] == 1.0
    if estimator not in ("affine",):  # documents are shuffled: their rates hardly differ
        assert result.curve.theta[1] < 0.8


def test_given_propensities_are_published_unchanged(engine, warehouse):
    settings = settings_of("propensities.estimator=given", "propensities.given.theta=[1, 0.6, 0.4]")
    outcome = build_propensities(engine, warehouse, DATES, settings)
    assert outcome.results[0].curve.theta.tolist() == [1, 0.6, 0.4]
    assert outcome.results[0].curve.source == ["given"] * 3


def test_a_changed_file_of_given_propensities_is_published_again(engine, warehouse, tmp_path):
    file = tmp_path / "theta.json"
    settings = settings_of("propensities.estimator=given", f"propensities.given.file={file}")
    for theta in ([1, 0.6, 0.4], [1, 0.5, 0.3]):
        file.write_text(json.dumps({"theta": theta}))
        outcome = build_propensities(engine, warehouse, DATES, settings)
        assert outcome.results[0].curve.theta.tolist() == theta
    assert build_propensities(engine, warehouse, DATES, settings).skipped


def test_a_changed_plan_file_is_published_again_and_its_split_is_tested(
    engine, warehouse, tmp_path
):
    file, settings = tmp_path / "plan.json", settings_of("propensities.segments=false")
    build = partial(build_propensities, engine, warehouse, DATES, settings)
    assert not build().skipped
    for swapped in (0.5, 0.1):
        bucket = {"bucket": "1:2", "fraction": 0.3, "swapped": swapped}
        file.write_text(json.dumps({"salt": "s", "buckets": [bucket]}))
        outcome = build(plan_file=str(file))
        checks = {f.subject: f for f in outcome.results[0].findings if f.check == "sample_ratio"}
        assert checks["unknown buckets"].verdict == "warning"
    assert checks["1:2"].message.endswith("10% planned")
    assert build(plan_file=str(file)).skipped
    with pytest.raises(UserError, match="does not exist"):
        build(plan_file=f"{tmp_path}/none.json")


def test_the_curve_is_as_deep_as_the_longest_list_that_is_shown(engine, warehouse):
    publish(warehouse, DATES[0], random_groups(np.random.default_rng(1), 400), longest=7)
    for limit, positions in ((50, 7), (6, 6), (3, 3)):
        settings = settings_of(f"propensities.max_position={limit}")
        results = estimate_propensities(engine, warehouse, DATES, settings)
        assert {result.curve.positions for result in results} == {positions}
        assert set(results[0].curve.source[4:]) <= {"imputed"}  # the lists have 4 documents


def test_a_run_killed_between_two_tables_is_repeated(engine, warehouse):
    settings = settings_of("propensities.estimator=given", "propensities.given.theta=[1, 0.6, 0.4]")
    done = build_propensities(engine, warehouse, DATES, settings).manifest
    with warehouse.writing("joint_propensities", "", "other") as draft:
        draft.publish({})
    again = build_propensities(engine, warehouse, DATES, settings)
    assert not again.skipped
    assert again.manifest.fingerprint == done.fingerprint


def test_changed_features_of_regression_em_change_the_fingerprint(tmp_path):
    file, em = tmp_path / "features.parquet", "propensities.estimator=regression_em"
    of_file = load_settings(None, [f"features.path={file}"]).features

    def read(*changes):
        settings = settings_of(*changes)
        return files_read(
            settings, _latest_features(None, Warehouse(str(tmp_path)), settings, of_file, DATES)
        )

    pq.write_table(pa.table({"query_id": ["q"]}), file)
    before = read(em)
    pq.write_table(pa.table({"query_id": ["q", "r"]}), file)
    assert read(em) != before
    assert read("propensities.estimator=combined") == {}
    assert read(em, "propensities.regression_em.features=false") == {}


def test_groups_without_a_page_are_an_error(tmp_path):
    settings = settings_of("propensities.estimator=all_pairs")
    house = Warehouse(str(tmp_path))
    publish(house, DATES[0], [], parts=0)
    with pytest.raises(UserError, match="contain no page"):
        estimate_propensities(None, house, DATES[:1], settings)


def test_buckets_deeper_than_all_clicks_are_left_out():
    """Not an error here: some estimators need no swaps."""
    row = {"segment": None, "bucket": "1:9", "swapped": False, "condition": 0, "k": 0, "l": 0}
    rows = pa.Table.from_pylist([row | {"sessions": 5}], schema=swap_counts_schema)
    assert counts_of(rows, 2) == SwapCounts(2)


def test_a_swap_estimator_without_buckets_names_the_alternatives(engine, tmp_path):
    house = Warehouse(str(tmp_path))
    publish(house, DATES[0], random_groups(np.random.default_rng(2), 10, buckets=(None,)))
    with pytest.raises(UserError, match="plan-swaps"):
        estimate_propensities(
            engine, house, DATES[:1], settings_of("propensities.estimator=combined")
        )


def test_rates_for_planning_leave_swapped_pages_out(engine, warehouse):
    rates, pages = plain_rates(engine, warehouse, DATES, positions=4)
    rows = [
        r
        for d in DATES
        for f in warehouse.files("groups", f"dt={d}")
        for r in pq.read_table(f).to_pylist()
    ]
    plain = [s for row in rows if not row["swapped"] for s in sessions_of(row)]
    np.testing.assert_allclose(np.diag(rates), np.mean(plain, axis=0))
    assert pages == sum(sum(row["counts"]) for row in rows)


def test_a_window_without_groups_names_the_published_dates(warehouse):
    assert window_dates(warehouse, "2026-01-02", 30) == DATES
    with pytest.raises(UserError, match="dt=2026-01-01 to dt=2026-01-02"):
        window_dates(warehouse, "2025-01-01", 30)
