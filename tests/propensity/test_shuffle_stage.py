from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from tests.support import propensity_loops as loops
from tests.support.random_groups import publish, random_groups
from tests.support.session_groups import sessions_of
from ulr.config.load import load_settings
from ulr.errors import UserError
from ulr.propensity.stage import build_propensities, estimate_propensities
from ulr.warehouse.tables import Warehouse

DATES = [dt.date(2026, 1, 1)]


def settings_of(*changes):
    fast = ["propensities.min_clicks=20", "propensities.min_coclicks=20"]
    return load_settings(None, [*fast, *changes]).propensities


def test_theta_and_psi_of_shuffles_equal_a_loop_over_sessions(engine, tmp_path):
    house = Warehouse(str(tmp_path))
    rng = np.random.default_rng(5)
    rows = random_groups(rng, 120, buckets=("shuffle", None))
    rows += random_groups(rng, 60, positions=3, buckets=("shuffle", "1:2"))
    publish(house, DATES[0], rows, parts=3)
    pages = [s for row in rows if row["bucket"] == "shuffle" for s in sessions_of(row)]
    settings = settings_of("propensities.estimator=shuffle", "propensities.segments=false")
    outcome = build_propensities(engine, house, DATES, settings)
    (result,) = outcome.results
    for k in (2, 3, 4):
        expected = loops.shuffle_ratio(pages, (k,), (1,))
        assert result.curve.theta[k - 1] == pytest.approx(expected)
    assert {r["estimator"] for r in house.read("propensities").to_pylist()} == {"shuffle"}
    missing = load_settings(None, ["propensities.estimator=shuffle"]).propensities
    house = Warehouse(str(tmp_path / "other"))
    publish(house, DATES[0], random_groups(rng, 20))
    with pytest.raises(UserError, match="needs pages in the bucket shuffle"):
        estimate_propensities(engine, house, DATES, missing)


def test_a_single_swap_is_not_estimated_from_shuffles(engine, tmp_path):
    house = Warehouse(str(tmp_path))
    publish(house, DATES[0], random_groups(np.random.default_rng(6), 60, buckets=("shuffle",)))
    with pytest.raises(UserError, match="needs swap buckets"):
        estimate_propensities(
            engine, house, DATES, settings_of("propensities.estimator=single_swap")
        )
    combined = estimate_propensities(engine, house, DATES, settings_of())
    assert combined[0].curve.source == ["estimated"] * 4
