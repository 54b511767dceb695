from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from tests.support import propensity_loops as loops
from tests.support.swap_lab import (
    BROWSING,
    POSITIONS,
    SwapLab,
    arms_of,
    click_model,
    draw_sessions,
    lab_of,
    pair_buckets,
    queries,
    single_buckets,
)
from ulr.propensity.browsing import fit_browsing, row_skipping_psi
from ulr.propensity.curve_checks import browsing_findings
from ulr.propensity.estimators import swap_curve
from ulr.propensity.joint import frechet, joint_estimates, solve_pairs
from ulr.propensity.swap_counts import SwapCounts
from ulr.simulate.browsing import RowSkipping

CHOSEN = {
    "independent": "independent",
    "continuous": "continuous",
    "row skipping": "row_skipping",
}


def estimate(counts, *, min_coclicks=400, joint="all_swaps", browsing="auto"):
    curve = swap_curve(counts, "combined", min_clicks=100)
    fit, fits = fit_browsing(browsing, curve.theta, counts, width=2)
    solution = solve_pairs(counts, min_coclicks=min_coclicks, joint=joint)
    return joint_estimates(curve, solution, fit), fit, fits


def relative_error(rows, psi):
    return np.sqrt(np.mean([(r.psi / psi[r.k - 1, r.l - 1] - 1) ** 2 for r in rows]))


@pytest.mark.parametrize("width", [1, 2, 3, 4])
def test_row_skipping_equals_following_every_path(width):
    rng = np.random.default_rng(width)
    continue_probability = rng.uniform(0.5, 1, 7)
    psi = row_skipping_psi(0.3, continue_probability, width)
    for k in range(1, 8):
        for v in range(k, 8):
            expected = loops.row_skipping_psi(0.3, continue_probability.tolist(), width, k, v)
            assert psi[k - 1, v - 1] == pytest.approx(expected)
            assert psi[v - 1, k - 1] == pytest.approx(expected)


@pytest.mark.parametrize("name", BROWSING)
def test_recovers_known_joint_propensities_and_the_browsing_model(name):
    buckets = single_buckets(POSITIONS) + pair_buckets(POSITIONS)
    lab = lab_of(BROWSING[name], buckets, negative=0.1)
    rows, fit, fits = estimate(lab.draw(np.random.default_rng(1), 2_000_000))
    assert fit.name == CHOSEN[name]
    assert len(fits) == 3
    assert len(rows) == POSITIONS * (POSITIONS - 1) // 2
    assert relative_error(rows, lab.psi) < 0.05


def test_single_swaps_alone_identify_every_pair():
    lab = lab_of(BROWSING["continuous"], single_buckets(POSITIONS))
    rows, _, _ = estimate(lab.draw(np.random.default_rng(2), 2_000_000))
    assert {r.source for r in rows} == {"estimated"}
    assert relative_error(rows, lab.psi) < 0.05


def test_fitted_row_skipping_recovers_gamma_and_the_continue_probabilities():
    continue_probability = np.linspace(0.95, 0.7, POSITIONS)
    lab = lab_of(RowSkipping(0.25, continue_probability, 2), single_buckets(POSITIONS))
    _, fit, _ = estimate(lab.draw(np.random.default_rng(3), 2_000_000))
    assert fit.parameters["gamma"] == pytest.approx(0.25, abs=0.02)
    np.testing.assert_allclose(
        fit.parameters["continue_probability"], continue_probability[:-1], atol=0.05
    )


def test_every_browsing_model_is_reported_with_its_bic_and_the_chosen_one_is_marked():
    lab = lab_of(BROWSING["continuous"], single_buckets(POSITIONS))
    _, fit, fits = estimate(lab.draw(np.random.default_rng(7), 400_000))
    findings = {f.subject: f for f in browsing_findings(fit, fits)}
    assert {name: f.value for name, f in findings.items()} == {f.name: f.bic for f in fits}
    assert findings["continuous"].message.endswith("the lowest; chosen")
    assert "above the lowest" in findings["independent"].message
    assert browsing_findings(fit, []) == []


def test_pairs_without_a_pair_swap_are_imputed_and_marked():
    buckets = [*single_buckets(POSITIONS), "1,2:3,4"]
    lab = lab_of(BROWSING["independent"], buckets)
    rows, fit, _ = estimate(lab.draw(np.random.default_rng(4), 400_000), joint="pair_swaps")
    by_pair = {(r.k, r.l): r for r in rows}
    assert by_pair[3, 4].source == by_pair[1, 2].source == "estimated"
    assert by_pair[5, 7].source == "imputed"
    assert by_pair[5, 7].note.startswith(f"from the browsing model {fit.name}")
    assert by_pair[5, 7].psi == pytest.approx(fit.psi[4, 6])


def test_pair_swap_ratio_equals_a_loop_over_sessions():
    rng = np.random.default_rng(5)
    kept, swapped = draw_sessions(rng, 900, [0.6] * 4), draw_sessions(rng, 800, [0.5] * 4)
    counts = SwapCounts(4, {"1,2:3,4": arms_of("1,2:3,4", kept, swapped)})
    solution = solve_pairs(counts, min_coclicks=1, joint="pair_swaps")
    value = dict(zip(solution.nodes, np.exp(solution.log_value), strict=True))
    expected = loops.joint_swap_ratio(kept, swapped, (3, 4), (1, 2))
    assert value[3, 4] == pytest.approx(expected)


@pytest.mark.parametrize("buckets", [single_buckets(6), single_buckets(6) + pair_buckets(6)])
def test_intervals_of_psi_cover_the_truth_95_times_in_100(buckets):
    positions = 6
    rng = np.random.default_rng(6)
    model = click_model(BROWSING["continuous"].__class__(np.arange(1, 7) ** -0.5), positions)
    lab = SwapLab(model, queries(rng, 8, positions), buckets)
    covered = []
    for _ in range(200):
        rows, _, _ = estimate(lab.draw(rng, 300_000), min_coclicks=30, browsing="independent")
        for r in rows:
            low, high = r.interval()
            covered.append(low <= lab.psi[r.k - 1, r.l - 1] <= high)
    assert 0.93 <= np.mean(covered) <= 0.97


def test_projection_keeps_psi_within_the_frechet_bounds():
    assert frechet(0.9, 0.5, 0.7) == 0.5
    assert frechet(0.1, 0.8, 0.7) == pytest.approx(0.8 + 0.7 - 1)
    assert frechet(0.3, 0.5, 0.4) == 0.3
    # relative to theta(1) = 0.7, two positions of 0.56 and 0.49 overlap by 0.05 at least
    assert frechet(0.0, 0.8, 0.7, theta_1=0.7) == pytest.approx((0.56 + 0.49 - 1) / 0.7)


def test_without_experiments_auto_is_independent_and_the_note_gives_the_reason():
    theta = np.array([1.0, 0.5, 0.25])
    fit, fits = fit_browsing("auto", theta, None, width=2)
    assert fits == []
    assert "no co-clicks" in fit.note
    for k, v in combinations(range(3), 2):
        assert fit.psi[k, v] == theta[k] * theta[v]
