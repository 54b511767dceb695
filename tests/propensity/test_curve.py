from __future__ import annotations

import numpy as np

from ulr.propensity.components import connected_components, name_nodes, unlinked_reasons
from ulr.propensity.curve import jackknife, make_curve


def test_the_jackknife_of_a_mean_is_its_variance():
    values = np.random.default_rng(0).normal(size=(12, 3))
    without = (values.sum(axis=0) - values) / 11
    np.testing.assert_allclose(jackknife(without), np.cov(values.T) / 12)


def test_a_position_with_a_reason_has_no_estimate():
    covariance = np.array([[0.0, 0.0], [0.0, 0.01]])
    curve = make_curve("e", np.array([1.0, 0.5]), covariance, np.array([9, 9]), {2: "too few"})
    assert curve.source == ["estimated", "insufficient"]
    assert curve.note == ["", "too few"]
    assert np.isnan(curve.theta[1])
    assert np.isnan(curve.standard_error[1])
    assert curve.standard_error[0] == 0


def test_components_are_sorted_and_come_in_the_order_of_their_smallest_node():
    assert connected_components([4, 3, 2, 1], [(4, 1), (4, 4)]) == [[1, 4], [2], [3]]
    pairs = connected_components([(1, 2), (2, 3), (1, 3)], [((2, 3), (1, 2))])
    assert pairs == [[(1, 2), (2, 3)], [(1, 3)]]


def test_nodes_outside_the_linked_component_get_a_reason():
    components = [[1, 2], [3, 5], [4]]
    reasons = unlinked_reasons(components, components[0])
    assert reasons[5] == "no comparison links {3, 5} to {1, 2}"
    assert set(reasons) == {3, 4, 5}


def test_a_long_list_of_nodes_is_shortened_in_the_middle():
    assert name_nodes(range(1, 14)) == "{1, 2, 3, 4, 5, 6, 7, 8, ..., 12, 13}"
