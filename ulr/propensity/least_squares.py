"""Generalised least squares on log ratios: any connected set of comparisons gives one curve.

log r_i = log x(over_i) - log x(under_i) + error, errors of one bucket correlated, of different
buckets not. x(anchor) = 1. A star of ratios gives the ratios back, a path their products, a graph
with cycles the best compromise, whose misfit is a chi-square.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ulr.propensity.ratios import Node, Ratios

FLOOR = 1e-12  # a variance of zero (clicks that always come together) must not weigh infinitely


@dataclass(frozen=True)
class Solution:
    """Values on the log scale for the nodes linked with the anchor, and why others have none."""

    nodes: list[Node]
    log_value: np.ndarray
    covariance: np.ndarray
    support: dict[Node, int]
    refused: dict[Node, str]
    components: list[list[Node]]
    misfit: float
    freedom: int


def solve_ratios(
    ratios: Sequence[Ratios],
    nodes: Sequence[Node],
    *,
    anchor: Node,
    min_support: int,
    noun: str = "clicks",
) -> Solution:
    """Estimate every node that has support and a path to the anchor; name the others."""
    support, refused = _supported(ratios, nodes, anchor, min_support, noun)
    kept = {n for n in nodes if n not in refused}
    edges = [(a, b) for r in ratios for a, b in zip(r.over, r.under, strict=True)]
    components = connected_components(kept, [e for e in edges if set(e) <= kept])
    with_anchor = next(c for c in components if anchor in c)
    for other in components:
        if other is not with_anchor:
            why = f"nothing links {name_nodes(other)} with {name_nodes(with_anchor)}"
            refused |= dict.fromkeys(other, why)
    free = [n for n in with_anchor if n != anchor]
    log_value, covariance, misfit, rows = _solve(ratios, free, anchor)
    place = [with_anchor.index(n) for n in free]
    full = np.zeros(len(with_anchor))
    full[place] = log_value
    spread = np.zeros((len(with_anchor), len(with_anchor)))
    spread[np.ix_(place, place)] = covariance
    return Solution(
        with_anchor, full, spread, support, refused, components, misfit, rows - len(free)
    )


def _supported(
    ratios: Sequence[Ratios], nodes: Sequence[Node], anchor: Node, min_support: int, noun: str
) -> tuple[dict[Node, int], dict[Node, str]]:
    """Support of every node, and why some have too little.

    What is compared with a refused node alone bears on nothing, so others may be refused in turn.
    """
    support: dict[Node, int] = {}
    refused: dict[Node, str] = {}
    while True:
        kept = [n for n in nodes if n not in refused]
        found, sessions = _support(ratios, kept)
        support |= found
        thin = [n for n in kept if n != anchor and found[n] < min_support]
        if not thin:
            return support, refused
        refused |= {n: _thin(found[n], sessions[n], min_support, noun) for n in thin}


def _support(
    ratios: Sequence[Ratios], nodes: Sequence[Node]
) -> tuple[dict[Node, int], dict[Node, int]]:
    """Support and sessions of the ratios between these nodes."""
    support, sessions = dict.fromkeys(nodes, 0), dict.fromkeys(nodes, 0)
    for r in ratios:
        for a, b, clicks in zip(r.over, r.under, r.support.tolist(), strict=True):
            if a in support and b in support:
                for node in (a, b):
                    support[node] += clicks
                    sessions[node] += r.sessions
    return support, sessions


def _thin(support: int, sessions: int, needed: int, noun: str) -> str:
    if support == 0:
        return f"no {noun} to compare, {needed:,} needed"
    would_take = int(np.ceil(sessions * needed / support))
    return (
        f"{support:,} {noun} in {sessions:,} swap sessions, {needed:,} needed: "
        f"about {would_take:,} sessions would do"
    )


def _solve(
    ratios: Sequence[Ratios], free: list[Node], anchor: Node
) -> tuple[np.ndarray, np.ndarray, float, int]:
    """Normal equations bucket by bucket; (x, covariance, misfit, number of ratios used)."""
    column = {node: i for i, node in enumerate(free)}
    known = {*free, anchor}
    information, score = np.zeros((len(free), len(free))), np.zeros(len(free))
    parts = []
    for r in ratios:
        used = [i for i in range(len(r.over)) if {r.over[i], r.under[i]} <= known]
        design, touched = _design([(r.over[i], r.under[i]) for i in used], column)
        spread = r.covariance[np.ix_(used, used)] + FLOOR * np.eye(len(used))
        weight = np.linalg.inv(spread)
        y = r.log_ratio[used]
        information[np.ix_(touched, touched)] += design.T @ weight @ design
        score[touched] += design.T @ weight @ y
        parts.append((design, touched, weight, y))
    covariance = np.linalg.inv(information)
    x = covariance @ score
    left = [(y - design @ x[touched], weight) for design, touched, weight, y in parts]
    misfit = sum(float(e @ weight @ e) for e, weight in left)
    return x, covariance, misfit, sum(e.size for e, _ in left)


def _design(
    edges: list[tuple[Node, Node]], column: dict[Node, int]
) -> tuple[np.ndarray, list[int]]:
    """A row per ratio and the columns that it has: of 1,225 pairs a bucket compares a hundred."""
    touched = sorted({column[node] for edge in edges for node in edge if node in column})
    place = {c: i for i, c in enumerate(touched)}
    design = np.zeros((len(edges), len(touched)))
    for row, edge in enumerate(edges):
        for node, sign in zip(edge, (1, -1), strict=True):
            if node in column:
                design[row, place[column[node]]] = sign
    return design, touched


Vertex = TypeVar("Vertex")


def connected_components(
    nodes: Iterable[Vertex], edges: Iterable[tuple[Vertex, Vertex]]
) -> list[list[Vertex]]:
    """Components in order of their smallest node, each in rising order."""
    root = {node: node for node in nodes}

    def find(node: Vertex) -> Vertex:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for a, b in edges:
        low, high = sorted((find(a), find(b)))
        root[high] = low
    found: dict[Vertex, list[Vertex]] = {}
    for node in sorted(root):
        found.setdefault(find(node), []).append(node)
    return [found[low] for low in sorted(found)]


def name_nodes(nodes: Iterable[Vertex]) -> str:
    """{1, 2} for people; a long run of positions is cut in the middle."""
    names = [str(node) for node in nodes]
    if len(names) > 12:
        names = [*names[:8], "...", *names[-2:]]
    return "{" + ", ".join(names) + "}"
