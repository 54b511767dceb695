"""The row of a night, from its facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.night_history import failed_facts, name_of, night_facts
from tests.support.report_samples import estimate
from ulr.report.nights.rows import facts_of_summary, read_row, row_of


def test_a_promoted_model_is_the_champion_and_its_value_that_of_the_champion():
    row = row_of(night_facts(3, "promoted", champion=2, value=0.6))
    assert (row.date, row.outcome, row.promoted, row.failed) == (
        name_of(3),
        "promoted",
        True,
        False,
    )
    assert (row.before, row.champion, row.version) == (2, 4, 4)
    assert row.values == {"champion": [0.6, 0.58, 0.62], "production": [0.5, 0.48, 0.52]}
    assert (row.pages, row.read, row.quarantined) == (1003, 2000, 20)
    assert row.quarantine_fraction == 20 / 2000
    assert row.seconds == {"groups": 10.0, "propensities": 20.0, "pairs": 30.0, "train": 40.0,
                           "evaluate": 50.0, "promote": 60.0}  # fmt: skip


def test_a_kept_champion_has_its_own_value_and_not_that_of_the_nights_model():
    row = row_of(night_facts(3, "kept", champion=2, value=0.6))
    assert (row.promoted, row.before, row.champion, row.version) == (False, 2, 2, 4)
    assert row.values["champion"][0] == 0.6


def test_a_repeated_night_whose_model_is_the_champion_counts_as_its_promotion():
    row = row_of(night_facts(3, "champion", champion=4))
    assert row.promoted
    assert row.champion == 4


def test_theta_is_that_of_all_traffic_at_a_few_positions():
    row = row_of(night_facts(0, "promoted"))
    assert list(row.theta) == ["2", "3", "5", "10"]
    assert row.theta["5"] == [0.2, pytest.approx(0.18), pytest.approx(0.22)]


def test_a_failed_night_has_its_message_and_the_seconds_of_the_stages_that_ran():
    row = row_of(failed_facts(1, "no file"))
    assert (row.outcome, row.failed, row.message) == ("failed", True, "groups: no file")
    assert row.seconds == {"groups": 3.0}
    assert (row.champion, row.values, row.theta, row.pages) == (None, {}, {}, None)
    assert row.quarantine_fraction is None


def test_another_metric_can_be_taken_from_the_facts():
    facts = night_facts(0, "promoted")
    facts = replace(facts, metrics=[*facts.metrics, estimate("joint", "ndcg_at_10", 0.9)])
    assert row_of(facts).metric == "snips_dcg"
    assert row_of(facts, "ndcg_at_10").values == {"champion": [0.9, 0.88, 0.92]}


def test_a_row_survives_storage_and_fields_of_a_later_version_are_ignored():
    row = row_of(night_facts(0, "promoted"))
    assert read_row(row.to_json() | {"later": 1}) == row


def test_the_summary_of_a_night_without_a_report_gives_outcome_and_seconds():
    verdict = {"outcome": "promoted", "version": 7, "champion": 6}
    stages = [
        {"stage": "groups", "status": "done", "seconds": 5.0, "message": "", "details": {}},
        {"stage": "promote", "status": "done", "seconds": 1.0, "message": "", "details": verdict},
    ]
    row = row_of(facts_of_summary({"date": "2026-01-04", "stages": stages}))
    assert (row.date, row.outcome, row.champion) == ("2026-01-04", "promoted", 7)
    assert row.seconds == {"groups": 5.0, "promote": 1.0}
