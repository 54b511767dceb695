"""theta as somebody else knows it: a list in the settings, or a JSON file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ulr.errors import UserError
from ulr.propensity.curve import Curve


def given_curve(theta: Sequence[float]) -> Curve:
    """A curve without errors. theta(1) comes first; values above 0, at most 1."""
    values = np.asarray(theta, float)
    if values.ndim != 1 or not values.size or not np.all((values > 0) & (values <= 1)):
        raise UserError(
            f"propensities.given: {list(theta)!r}; give theta(1), theta(2), ... as numbers above 0 "
            "and at most 1, in propensities.given.theta or a JSON file"
        )
    n = values.size
    none = np.zeros((n, n))
    return Curve("given", values, none, np.zeros(n, np.int64), ["given"] * n, [""] * n)


def theta_of_json(content: Any, name: str) -> list[float]:
    """A list of numbers, or an object with `theta`: what `ulr propensities` writes will do."""
    if isinstance(content, dict):
        content = content.get("theta")
    if not isinstance(content, list) or not all(isinstance(x, int | float) for x in content):
        raise UserError(f"{name}: expected a list of numbers, or an object with a list 'theta'")
    return [float(x) for x in content]
