"""Several weightings of one table: columns, precision, saturation (docs/methods.md section 4.6)."""

from dataclasses import replace

import numpy as np
import pytest

from tests.support.pair_inputs import EXAMINATION, FEATURES, GROUPS, THETA, group, groups_of
from ulr.features.join import join_features
from ulr.pairs.config import make_pair_config
from ulr.pairs.table import build_pair_table
from ulr.pairs.weightings import (
    CANDIDATES,
    candidates_for,
    column_names,
    training_columns,
    validation_columns,
    weightings_of,
)
from ulr.pairs.weights import METHODS, precision_table

V = 0.4  # variance of the prior on co-clicks


def table_of(method, groups=GROUPS, **options):
    config = make_pair_config(method, EXAMINATION, **{"co_click_variance": V, **options})
    return build_pair_table(join_features(groups, FEATURES), config)[0]


def weights(table, columns=("u_ij", "u_ji")):
    return np.stack([table[name].combine_chunks().flatten().to_numpy() for name in columns])


@pytest.mark.parametrize("grouping", ["ranking", "query"])
def test_auto_has_the_weights_of_every_candidate(grouping):
    auto = table_of("auto", grouping=grouping)
    for candidate, columns in zip(CANDIDATES, column_names(CANDIDATES), strict=True):
        alone = table_of(candidate.method, precision=candidate.precise, grouping=grouping)
        np.testing.assert_array_equal(weights(auto, columns), weights(alone))
        for name in set(alone.column_names) - {
            "u_ij",
            "u_ji",
            "u_ij_validation",
            "u_ji_validation",
        }:
            assert auto[name].equals(alone[name])
    assert training_columns("auto") == column_names(CANDIDATES)
    alone = table_of("robust", grouping=grouping)
    for method in ("auto", "robust"):
        assert validation_columns(method) == ("u_ij_validation", "u_ji_validation")
    validation = [weights(t, validation_columns("auto")) for t in (auto, alone)]
    np.testing.assert_array_equal(*validation)


@pytest.mark.parametrize("grouping", ["ranking", "query"])
@pytest.mark.parametrize("click_model", ["cascade", "affine"])
def test_a_click_model_adds_its_method_and_validates_with_it(click_model, grouping):
    kappa = np.full((THETA.size, THETA.size), 1.3)
    known = replace(
        EXAMINATION, alpha=THETA / 2, beta=THETA**2 / 4, kappa=kappa, click_model=click_model
    )

    def made(method, examination, **options):
        config = make_pair_config(method, examination, co_click_variance=V, grouping=grouping,
                                  **options)  # fmt: skip
        return build_pair_table(join_features(GROUPS, FEATURES), config)[0]

    auto = made("auto", known)
    candidates = candidates_for(click_model)
    assert [c.method for c in candidates] == [*(c.method for c in CANDIDATES), click_model]
    columns = training_columns("auto", click_model)
    assert columns == column_names(candidates)
    own = made(click_model, known, precision=True)
    np.testing.assert_array_equal(weights(auto, columns[-1]), weights(own))
    validation = validation_columns("auto")
    np.testing.assert_array_equal(weights(auto, validation), weights(own))
    other = made("robust", known)
    np.testing.assert_array_equal(weights(other, validation), weights(own, validation))
    if click_model == "cascade":  # the same pairs, so the same columns as without the click model
        usual = made("auto", replace(known, click_model=""))
        for name, before in zip(columns[:-1], training_columns("auto"), strict=True):
            np.testing.assert_array_equal(weights(auto, name), weights(usual, before))


def test_a_single_method_is_validated_by_joint_with_precision_and_without_the_prior():
    robust = table_of("robust")
    joint = table_of("joint", precision=True, co_click_variance=np.inf)
    validation = weights(robust, validation_columns("robust"))
    np.testing.assert_array_equal(validation, weights(joint))
    assert training_columns("robust") == [("u_ij", "u_ji")]
    assert [w.method for w in weightings_of("labels")] == ["labels"]
    assert [w.method for w in weightings_of("affine")] == ["affine", "affine"]


def test_precision_is_the_harmonic_mean_of_the_two_thetas():
    got = precision_table("joint", THETA)
    for k, t in enumerate(THETA):
        for v, u in enumerate(THETA):
            assert got[k, v] == pytest.approx(2 * t * u / (t + u))
    assert (precision_table("pns", THETA) == 1).all()  # robust times theta_i theta_j


@pytest.mark.parametrize("method", sorted(set(METHODS) - {"affine"}))
def test_precision_and_saturation_multiply_both_weights_of_a_pair_by_the_same_factor(method):
    """The pair's minimum depends on u_ij / u_ji, so it stays where it is."""
    plain, precise = (weights(table_of(method, precision=p)) for p in (False, True))
    assert (plain != precise).any()
    np.testing.assert_allclose(plain[0] * precise[1], plain[1] * precise[0], rtol=1e-4, atol=1e-6)


def test_the_factor_depends_on_positions_and_sessions_but_not_on_clicks():
    """Lists shown ten times: position 1 has theta 1, so that the pair (1, 2) is known exactly."""
    n_0, s = 4.0, 2 * THETA[0] * THETA[1] / (THETA[0] + THETA[1])
    for clicked in (1, 2, 7):
        shown = groups_of(group("a", ["x", "y"], {(1,): clicked, (): 10 - clicked}))
        got = weights(table_of("robust", shown, precision=True, saturation=n_0))
        assert got[0, 0] == pytest.approx(clicked / THETA[0] * s / (1 + 10 * s / n_0))


def test_a_pair_of_several_lists_saturates_with_the_sessions_of_all():
    n_0, s = 4.0, 2 * THETA[0] * THETA[1] / (THETA[0] + THETA[1])
    lists = [group("a", ["x", "y"], {(1,): 10}), group("a", ["y", "x"], {(): 30})]
    got = weights(table_of("robust", groups_of(*lists), precision=True, saturation=n_0))
    assert got[0, 0] == pytest.approx(10 / THETA[0] * s / (1 + 40 * s / n_0))
    unlimited = weights(table_of("robust", groups_of(*lists), precision=True, saturation=np.inf))
    assert unlimited[0, 0] == pytest.approx(10 / THETA[0] * s)


def test_the_information_uses_the_floored_theta():
    n_0, floor, clicked = 4.0, 0.4, 3
    theta = np.maximum(THETA, floor)
    s = 2 * theta[2] * theta[3] / (theta[2] + theta[3])
    shown = groups_of(group("b", ["q", "r", "x", "y"], {(3,): clicked, (): 7}))
    options = {"precision": True, "saturation": n_0, "propensity_floor": floor}
    table = table_of("robust", shown, missing_features="drop", **options)
    assert weights(table)[0, 0] == pytest.approx(clicked / theta[2] * s / (1 + 10 * s / n_0))


def test_validation_replaces_a_psi_that_is_unknown_or_zero():
    """`robust` does not need psi, so its table must not."""
    usual = table_of("robust")
    for psi in (np.nan, 0.0):
        unknown = EXAMINATION.psi.copy()
        unknown[1, 2] = unknown[2, 1] = psi
        config = make_pair_config("robust", replace(EXAMINATION, psi=unknown))
        table, _ = build_pair_table(join_features(GROUPS, FEATURES), config)
        for columns in (("u_ij", "u_ji"), validation_columns("robust")):  # psi was the product
            np.testing.assert_array_equal(weights(table, columns), weights(usual, columns))
