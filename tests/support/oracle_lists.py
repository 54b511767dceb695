"""Plain loops with the results that the listwise kernels must have."""

from __future__ import annotations

import math


def softmax(values):
    top = max(values)
    exponentials = [math.exp(v - top) for v in values]
    return [e / sum(exponentials) for e in exponentials]


def list_loss(scores, clicks, weights):
    """Return -sum w_i C_i log s_i of one list."""
    s = softmax(scores)
    return -sum(w * c * math.log(p) for w, c, p in zip(weights, clicks, s, strict=True))


def list_gradient(scores, clicks, weights):
    """Return the gradient of `list_loss` and the diagonal of its Hessian."""
    s = softmax(scores)
    total = sum(w * c for w, c in zip(weights, clicks, strict=True))
    gradient = [p * total - w * c for p, w, c in zip(s, weights, clicks, strict=True)]
    return gradient, [p * (1 - p) * total for p in s]


def relevance_ratios(scores, positions, limit):
    """Return s_1 / s_i of one list, at most `limit`; 1 is the document at the top position."""
    s = softmax(scores)
    top = s[positions.index(min(positions))]
    return [min(top / p, limit) for p in s]
