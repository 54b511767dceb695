"""Which method is unbiased under which browsing model: docs/methods.md section 4.9."""

import numpy as np
import pytest

from tests.support.weight_errors import browsing_models, weight_errors

MODELS = tuple(browsing_models(np.ones(2)))
WITHOUT_STOPPING = tuple(name for name in MODELS if name != "cascade")
SMALL = {"sessions": 1_000_000, "positions": 4, "eta": 0.5}


@pytest.mark.parametrize("name", WITHOUT_STOPPING)
def test_affine_is_unbiased_under_trust_bias_where_joint_is_not(name):
    errors = weight_errors(name, trust=True, **SMALL)
    assert errors["affine"].weight < 0.01
    assert errors["joint"].weight > 0.05


@pytest.mark.parametrize("name", WITHOUT_STOPPING)
def test_joint_is_unbiased_without_trust_bias(name):
    errors = weight_errors(name, trust=False, **SMALL)
    assert errors["joint"].weight < 0.01
    assert errors["ips-all"].direction < 0.01
    assert errors["robust+"].direction < 0.01
    assert min(errors[m].direction for m in ("naive", "robust", "pns", "prs")) > 0.05


def test_cascade_is_unbiased_where_users_stop_after_clicks_and_joint_is_not():
    errors = weight_errors("cascade", trust=False, **SMALL)
    assert errors["cascade"].weight < 0.01
    assert errors["joint"].weight > 0.05
