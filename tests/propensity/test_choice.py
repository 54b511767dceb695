"""The estimator `auto`: which source each position of a simulated log gets, and why."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.random_groups import publish
from tests.support.rank_worlds import POSITIONS, THETA, harvest_of, rank_log
from tests.support.session_groups import group
from tests.support.swap_lab import SwapLab, click_model, queries, single_buckets
from ulr.config.load import load_settings
from ulr.errors import UserError
from ulr.propensity.choice import SwapEvidence, choose_harvest, choose_swaps
from ulr.propensity.estimators import Evidence, estimate_theta, swap_curve
from ulr.propensity.extension import EXTENDED
from ulr.propensity.harvesting import harvested_curve
from ulr.propensity.stage import build_propensities, estimate_propensities
from ulr.propensity.swap_counts import SwapCounts
from ulr.propensity.tables import as_json, summary_lines
from ulr.simulate.browsing import Independent
from ulr.warehouse.tables import Warehouse

MIN_CLICKS = 50
SETTINGS = load_settings(None).propensities
DATES = [dt.date(2026, 1, 1), dt.date(2026, 1, 2)]


def evidence_of(counts: SwapCounts) -> SwapEvidence:
    return SwapEvidence(swap_curve(counts, "combined", min_clicks=MIN_CLICKS), counts, MIN_CLICKS)


def swaps(pages, *, buckets=None, theta=THETA, seed=2):
    lab = SwapLab(
        click_model(Independent(theta), POSITIONS),
        queries(np.random.default_rng(1), 12, POSITIONS), buckets or single_buckets(POSITIONS),
    )  # fmt: skip
    return lab.draw(np.random.default_rng(seed), pages)


def harvest(world="random", seed=3, **sizes):
    table = harvest_of(*rank_log(world, np.random.default_rng(seed), **sizes))
    return table, harvested_curve(table, POSITIONS, form="all_pairs", min_clicks=MIN_CLICKS)


def test_enough_swaps_are_used_alone():
    evidence = evidence_of(swaps(60_000))
    assert evidence.suffices
    choice = choose_swaps(evidence)
    assert (choice.estimator, choice.finding.verdict) == ("combined", "ok")
    assert choice.finding.message == "theta of positions 1-6 from swaps"


def test_positions_with_few_clicks_and_no_swaps_do_not_need_rank_changes():
    evidence = evidence_of(swaps(60_000, buckets=["1:2", "1:3", "1:4"]))
    assert evidence.lacking == [5, 6]
    assert evidence.fraction > 0.05
    assert not evidence.suffices
    evidence = evidence_of(swaps(60_000, buckets=["1:2", "1:3", "1:4", "1:5"]))
    assert evidence.lacking == [6]
    assert evidence.suffices
    assert choose_swaps(evidence).finding.message == (
        f"theta of positions 1-5 from swaps; 6 have {evidence.fraction:.1%} of the clicks and no "
        "estimate: position 6 has 0 clicks in swap buckets, 50 are needed"
    )


def test_few_swaps_are_extended_by_rank_changes_and_the_message_says_how_far():
    evidence = evidence_of(swaps(900))
    reached, lacking = evidence.reached, evidence.lacking
    assert len(reached) > 1
    assert lacking
    table, curve = harvest(queries=200)
    choice = choose_harvest(evidence, table, curve, SETTINGS)
    assert (choice.estimator, choice.finding.verdict) == (EXTENDED, "note")
    message = choice.finding.message
    assert f"1-{reached[-1]} from swaps, " in message
    assert f"-{POSITIONS} from rank changes: position {lacking[0]} has " in message
    assert "50 are needed (about " in message
    assert message.endswith("propensities.estimator=combined uses swaps only")
    settings = SETTINGS.model_copy(update={"estimator": choice.estimator})
    extended = estimate_theta(
        Evidence(evidence.counts, harvest=table, reached=choice.reached), settings
    )
    np.testing.assert_allclose(extended.theta[: len(reached)], evidence.curve.theta[: len(reached)])
    lower, upper = extended.interval()
    assert np.all((lower[1:] <= THETA[1:]) & (THETA[1:] <= upper[1:]))


def test_the_named_number_of_sessions_gives_every_position_an_estimate():
    evidence = evidence_of(swaps(900))
    more = 900 * (1 + evidence.sessions / 900) * 1.3  # the message counts what is lacking only
    enough = evidence_of(swaps(int(more * len(evidence.lacking)), seed=4))
    assert not enough.lacking
    alone = evidence_of(SwapCounts(POSITIONS, outside=swaps(900).buckets["1:2"].kept))
    assert alone.sessions > evidence.sessions
    assert np.isnan(evidence_of(SwapCounts(POSITIONS)).sessions)
    assert evidence_of(SwapCounts(POSITIONS)).cost() == "sessions of swap experiments"


def test_rank_changes_that_disagree_with_the_swaps_do_not_extend_them():
    evidence = evidence_of(swaps(20_000, buckets=["1:2", "1:3", "1:4"]))
    table, curve = harvest("personal", queries=200)
    choice = choose_harvest(evidence, table, curve, SETTINGS)
    assert choice.estimator == "combined"
    message = choice.finding.message
    assert "1-4 from swaps, not from rank changes at 5-6, because theta by all_pairs" in message
    assert "against the swap buckets" in message


def test_without_swaps_rank_changes_are_used_and_without_them_nothing():
    evidence = evidence_of(SwapCounts(POSITIONS))
    table, curve = harvest(queries=200)
    choice = choose_harvest(evidence, table, curve, SETTINGS)
    assert choice.estimator == "all_pairs"
    assert "positions 2-6 from rank changes: no page took part in a swap" in choice.finding.message
    none = table.slice(0, 0)
    static = harvested_curve(none, POSITIONS, form="all_pairs", min_clicks=MIN_CLICKS)
    assert choose_harvest(evidence, none, static, SETTINGS) is None


# From the groups to the tables.


def shuffled_groups(rng, *, moves, buckets=(None,), documents=5, theta=None):
    """Groups of 40 queries with graded documents; moves: whether rankings change."""
    theta = 1 / np.arange(1.0, documents + 1) if theta is None else theta
    rows = []
    for q in range(40):
        relevance = np.linspace(0.9, 0.3, documents)
        for version in range(8):
            order = rng.permutation(documents) if moves else np.arange(documents)
            bucket = buckets[version % len(buckets)]
            swapped = None if bucket is None else bool(rng.integers(2))
            if swapped:
                low = int(bucket[2]) - 1
                order[[0, low]] = order[[low, 0]]
            clicks = rng.random((40, documents)) < theta * relevance[order]
            row = group(clicks.astype(int).tolist(), query=f"q{q}", bucket=bucket, swapped=swapped)
            rows.append(row | {"doc_ids": [f"d{d}" for d in order], "ranking": version})
    return rows


def settings_of(*changes):
    fast = ["propensities.regression_em.trees=20", "propensities.regression_em.rounds=3"]
    return load_settings(None, [*fast, *changes]).propensities


@pytest.fixture
def house(tmp_path):
    return Warehouse(str(tmp_path / "house"))


def test_a_log_without_buckets_gets_theta_from_rank_changes(engine, house):
    rows = shuffled_groups(np.random.default_rng(1), moves=True)
    publish(house, DATES[0], rows, longest=5)
    outcome = build_propensities(engine, house, DATES[:1], settings_of())
    curve = outcome.results[0].curve
    assert (curve.estimator, set(curve.source)) == ("all_pairs", {"estimated"})
    np.testing.assert_allclose(curve.theta, 1 / np.arange(1, 6), rtol=0.25)
    assert outcome.manifest.counts["positions_rank_changes"] == 5
    (finding,) = [
        row for row in house.read("diagnostics").to_pylist() if row["check"] == "estimator"
    ]
    assert (finding["verdict"], finding["subject"]) == ("note", "theta")
    assert as_json(outcome.results)["choice"] == finding["message"]
    assert finding["message"] in summary_lines(outcome.results)[1]


def test_swaps_at_some_positions_are_extended_and_a_changed_source_is_named(engine, house):
    rng = np.random.default_rng(2)
    rows = shuffled_groups(rng, moves=True, buckets=("1:2", "1:3", None, None))
    publish(house, DATES[0], rows, longest=5)
    outcome = build_propensities(engine, house, DATES[:1], settings_of())
    curve = outcome.results[0].curve
    assert curve.estimator == EXTENDED
    assert curve.source == ["estimated"] * 3 + ["harvested"] * 2
    assert outcome.manifest.counts["positions_swaps"] == 3
    assert outcome.change == ""
    more = shuffled_groups(rng, moves=True, buckets=("1:4", "1:5", None, None))
    publish(house, DATES[1], more, longest=5)
    again = build_propensities(engine, house, DATES, settings_of())
    assert again.results[0].curve.estimator == "combined"
    expected = "the source of theta has changed: positions 4-5 from rank changes to swaps"
    assert again.change == expected


def test_enough_swaps_need_no_pass_over_the_groups(engine, house, monkeypatch):
    rows = shuffled_groups(
        np.random.default_rng(3), moves=False, buckets=("1:2", "1:3", "1:4", "1:5")
    )
    publish(house, DATES[0], rows, longest=5)
    monkeypatch.setattr("ulr.propensity.tasks.exposures", lambda *a, **k: pytest.fail("a pass"))
    outcome = build_propensities(engine, house, DATES[:1], settings_of())
    combined = settings_of("propensities.estimator=combined")
    same = estimate_propensities(engine, house, DATES[:1], combined)
    np.testing.assert_array_equal(outcome.results[0].curve.theta, same[0].curve.theta)


def test_a_static_ranking_without_swaps_names_the_ways_out(engine, house, tmp_path):
    rows = shuffled_groups(np.random.default_rng(4), moves=False)
    publish(house, DATES[0], rows, longest=5)
    for used, reason in (
        ("false", "with features of the documents"),
        ("true", "no feature files at"),
    ):
        settings = load_settings(
            None,
            [f"propensities.regression_em.features={used}", f"features.path={tmp_path / 'none'}"],
        )
        with pytest.raises(UserError, match="theta cannot be estimated from this log") as error:
            build_propensities(
                engine, house, DATES[:1], settings.propensities, features=settings.features
            )
        text = str(error.value)
        for part in ("no page took part", "about", "plan-swaps", "estimator=given", reason):
            assert part in text
        assert "\n" not in text


def test_a_static_ranking_with_features_uses_them_and_says_what_it_assumes(engine, house, tmp_path):
    rng = np.random.default_rng(5)
    publish(house, DATES[0], shuffled_groups(rng, moves=False), longest=5)
    file = tmp_path / "features.parquet"
    rows = [
        {"query_id": f"q{q}", "doc_id": f"d{d}", "features": rng.random(2).astype("float32")}
        for q in range(40)
        for d in range(5)
    ]
    pq.write_table(pa.Table.from_pylist(rows), file)
    features = load_settings(None, [f"features.path={file}"]).features
    outcome = build_propensities(engine, house, DATES[:1], settings_of(), features=features)
    assert outcome.results[0].curve.estimator == "regression_em"
    assert outcome.manifest.counts["positions_features"] == 5
    assert "assumes that they explain relevance" in as_json(outcome.results)["choice"]
