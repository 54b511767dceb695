"""Generalised least squares on log ratios: any connected set of comparisons gives one curve.

log r_i = log x(over_i) - log x(under_i) + error, with x(anchor) = 1. Errors of one bucket are
correlated, errors of different buckets are not. The residual of more ratios than unknowns is a
chi-square statistic (docs/methods.md section 3.2).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic

import numpy as np

from ulr.propensity.components import Node, connected_components, unlinked_reasons
from ulr.propensity.ratios import Ratios

FLOOR = 1e-12  # added to variances: clicks that always come together must not weigh infinitely


@dataclass(frozen=True)
class Solution(Generic[Node]):
    """Estimates on the log scale for the nodes that are linked with the anchor.

    reasons: why the other nodes have no estimate. misfit, dof: chi-square of the residual.
    """

    nodes: list[Node]
    log_value: np.ndarray
    covariance: np.ndarray
    support: dict[Node, int]
    reasons: dict[Node, str]
    components: list[list[Node]]
    misfit: float
    dof: int


def solve_ratios(
    ratios: Sequence[Ratios[Node]],
    nodes: Sequence[Node],
    *,
    anchor: Node,
    min_support: int,
    noun: str = "clicks",
) -> Solution[Node]:
    """Estimate every node that has support and a path of comparisons to the anchor."""
    support, reasons = _check_support(ratios, nodes, anchor, min_support, noun)
    supported = {n for n in nodes if n not in reasons}
    edges = [(a, b) for r in ratios for a, b in zip(r.over, r.under, strict=True)]
    components = connected_components(supported, [e for e in edges if supported.issuperset(e)])
    linked = next(c for c in components if anchor in c)
    reasons |= unlinked_reasons(components, linked)
    free = [n for n in linked if n != anchor]
    log_value, covariance, misfit, used = _solve(ratios, free, anchor)
    at = linked.index(anchor)
    return Solution(
        linked,
        np.insert(log_value, at, 0.0),
        np.insert(np.insert(covariance, at, 0.0, axis=0), at, 0.0, axis=1),
        support,
        reasons,
        components,
        misfit,
        used - len(free),
    )


def _check_support(
    ratios: Sequence[Ratios[Node]], nodes: Sequence[Node], anchor: Node, needed: int, noun: str
) -> tuple[dict[Node, int], dict[Node, str]]:
    """Return the support of every node, and why some have too little.

    A comparison with a node that has too little does not count, so others may follow.
    """
    support: dict[Node, int] = {}
    reasons: dict[Node, str] = {}
    while True:
        remaining = [n for n in nodes if n not in reasons]
        clicks, sessions = _count_support(ratios, remaining)
        support |= clicks
        thin = [n for n in remaining if n != anchor and clicks[n] < needed]
        if not thin:
            return support, reasons
        reasons |= {n: _too_few(clicks[n], sessions[n], needed, noun) for n in thin}


def _count_support(
    ratios: Sequence[Ratios[Node]], nodes: Sequence[Node]
) -> tuple[dict[Node, int], dict[Node, int]]:
    """Return support and sessions of the ratios between these nodes."""
    support, sessions = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0)
    for r in ratios:
        for a, b, clicks in zip(r.over, r.under, r.support.tolist(), strict=True):
            if a in support and b in support:
                for node in (a, b):
                    support[node] += clicks
                    sessions[node] += r.sessions
    return support, sessions


def _too_few(support: int, sessions: int, needed: int, noun: str) -> str:
    if support == 0:
        return f"no {noun} to compare, {needed:,} needed"
    enough = int(np.ceil(sessions * needed / support))
    return (
        f"{support:,} {noun} in {sessions:,} sessions of experiments, {needed:,} needed; about "
        f"{enough:,} sessions would suffice"
    )


def _solve(
    ratios: Sequence[Ratios[Node]], free: list[Node], anchor: Node
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Return log values, their covariance, the misfit and the number of ratios used."""
    column = {node: i for i, node in enumerate(free)}
    known = {*free, anchor}
    information, score = np.zeros((len(free), len(free))), np.zeros(len(free))
    equations = []
    for r in ratios:
        used = [i for i in range(len(r.over)) if {r.over[i], r.under[i]} <= known]
        design, columns = _design([(r.over[i], r.under[i]) for i in used], column)
        weight = np.linalg.inv(r.covariance[np.ix_(used, used)] + FLOOR * np.eye(len(used)))
        y = r.log_ratio[used]
        information[np.ix_(columns, columns)] += design.T @ weight @ design
        score[columns] += design.T @ weight @ y
        equations.append((design, columns, weight, y))
    covariance = np.linalg.inv(information)
    x = covariance @ score
    residuals = [(y - design @ x[columns], weight) for design, columns, weight, y in equations]
    misfit = sum(float(e @ weight @ e) for e, weight in residuals)
    return x, covariance, misfit, sum(e.size for e, _ in residuals)


def _design(
    edges: list[tuple[Node, Node]], column: dict[Node, int]
) -> tuple[np.ndarray, list[int]]:
    """Return a row per ratio and its columns only: a bucket compares 100 of 1,225 pairs."""
    columns = sorted({column[node] for edge in edges for node in edge if node in column})
    index = {c: i for i, c in enumerate(columns)}
    design = np.zeros((len(edges), len(columns)))
    for row, edge in enumerate(edges):
        for node, sign in zip(edge, (1, -1), strict=True):
            if node in column:
                design[row, index[column[node]]] = sign
    return design, columns
