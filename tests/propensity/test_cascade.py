"""Users who stop after clicks: among the browsing models, and in the diagnostics of swaps."""

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest

from tests.support.swap_lab import (
    BROWSING,
    POSITIONS,
    STOPPING,
    click_model,
    lab_of,
    pair_buckets,
    single_buckets,
)
from ulr.propensity import experiment_checks
from ulr.propensity.browsing import fit_browsing
from ulr.propensity.cascade import BETA, PHI, attractions, co_examination, fit_cascade
from ulr.propensity.click_model import fits_cascade
from ulr.propensity.estimators import swap_curve
from ulr.propensity.stopping import Stopping
from ulr.simulate.browsing import Continuous, RowSkipping

SIGNIFICANCE = 0.01
ROWS = RowSkipping(0.3, np.full(POSITIONS, 0.8), 1)


def fitted(browsing, *, seed=1, pages=200_000, buckets=None, **noise):
    lab = lab_of(browsing, buckets or single_buckets(POSITIONS), **noise)
    counts = lab.draw(np.random.default_rng(seed), pages)
    theta = swap_curve(counts, "combined", min_clicks=50).theta
    _, fits = fit_browsing("auto", theta, counts, width=2)
    return counts, [*fits, fit_cascade(theta, counts)]


def test_co_examination_is_the_probability_of_following_every_user():
    attraction, phi, beta = np.array([0.8, 0.3, 0.6, 0.5]), 0.4, 0.9
    model = click_model(replace(STOPPING, phi=phi, beta=beta), 4)
    rng = np.random.default_rng(1)
    clicks = model.draw(rng, np.broadcast_to(attraction, (400_000, 4)))
    got = co_examination(attraction, phi, beta)
    for k, v in combinations(range(4), 2):
        rate = np.mean(clicks[:, k] & clicks[:, v]) / (attraction[k] * attraction[v])
        assert got[k, v] == got[v, k] == pytest.approx(rate, abs=0.006)
    np.testing.assert_allclose(np.diag(got) * attraction, clicks.mean(axis=0), atol=0.004)
    np.testing.assert_allclose(attractions(np.diag(got) * attraction, phi, beta), attraction)


@pytest.mark.parametrize("buckets", [single_buckets, pair_buckets])
@pytest.mark.parametrize("negative", [0.0, 0.1])
def test_the_cascade_has_the_lowest_bic_where_users_stop(buckets, negative):
    _, fits = fitted(STOPPING, buckets=buckets(POSITIONS), negative=negative)
    best = min(fits, key=lambda fit: fit.bic)
    assert best.name == "cascade"
    assert best.parameters[PHI] == pytest.approx(STOPPING.phi, abs=0.1)
    assert best.parameters[BETA] == pytest.approx(STOPPING.beta, abs=0.05)
    assert fits_cascade(fits)


@pytest.mark.parametrize("browsing", [*BROWSING.values(), ROWS])
def test_no_cascade_is_found_where_clicks_do_not_stop_users(browsing):
    assert not fits_cascade(fitted(browsing)[1])


def test_a_continuous_curve_of_a_cascade_without_stopping_is_not_a_cascade():
    """theta(k) = 0.85^(k-1): the same as beta = 0.85 and phi = 0."""
    _, fits = fitted(Continuous(0.85 ** np.arange(POSITIONS)))
    assert min(fits, key=lambda fit: fit.bic).parameters[PHI] < 0.02
    assert not fits_cascade(fits)


FOUND = Stopping(phi=0.4, phi_error=0.01, beta=0.9, beta_error=0.01, dof=31)


def test_differences_at_untouched_positions_are_explained_by_users_who_stop():
    counts, _ = fitted(STOPPING, pages=4_000_000)
    findings = experiment_checks.untouched_findings(counts, SIGNIFICANCE)
    alarms = {f.subject for f in findings if f.verdict == "note"}
    assert len(alarms) >= 5
    explained = experiment_checks.explained_by_stopping(counts, SIGNIFICANCE)
    assert alarms <= explained
    cleared = experiment_checks.explain_untouched(findings, explained)
    assert {f.verdict for f in cleared} == {"ok"}
    assert sum("users stop after clicks" in f.message for f in cleared) == len(alarms)


def test_a_difference_below_all_moved_positions_is_not_explained():
    counts, _ = fitted(STOPPING, pages=4_000_000)
    arms = counts.buckets["1:5"]
    clicks = arms.swapped.co_clicks.copy()
    clicks[8, 8] = clicks[8, 8] * 11 // 10
    changed = replace(arms, swapped=replace(arms.swapped, co_clicks=clicks))
    counts = replace(counts, buckets=counts.buckets | {"1:5": changed})
    assert "1:5" not in experiment_checks.explained_by_stopping(counts, SIGNIFICANCE)


def test_the_finding_gives_phi_and_beta_and_never_blocks():
    finding = experiment_checks.stopping_finding(FOUND, SIGNIFICANCE)
    assert finding.verdict == "note"
    assert finding.message.startswith(
        "users stop after clicks: phi = 0.400 [0.380, 0.420], beta = 0.900 [0.880, 0.920]"
    )
    unsure = replace(FOUND, phi=0.01)
    assert experiment_checks.stopping_finding(unsure, SIGNIFICANCE).verdict == "ok"
    without_beta = experiment_checks.stopping_finding(replace(FOUND, beta=np.nan), SIGNIFICANCE)
    assert "beta =" not in without_beta.message
    assert "no method corrects for them" in without_beta.message
