"""Which positions, or pairs of positions, are linked by comparisons.

Propensities are identified only within a connected component of the graph of comparisons
(Oosterhuis 2022, section 6.1; docs/methods.md section 3.2).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeVar

import numpy as np
from scipy.sparse import coo_array, csgraph

Pair = tuple[int, int]
Node = TypeVar("Node", int, Pair)  # a position, or a pair of positions


def connected_components(
    nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]
) -> list[list[Node]]:
    """Return the components in the order of their smallest node, each sorted."""
    ordered = sorted(nodes)
    index = {node: i for i, node in enumerate(ordered)}
    ends = np.array([(index[a], index[b]) for a, b in edges], np.int64).reshape(-1, 2).T
    graph = coo_array((np.ones(ends.shape[1]), tuple(ends)), shape=(len(ordered), len(ordered)))
    _, labels = csgraph.connected_components(graph, directed=False)
    components: dict[int, list[Node]] = {}
    for node, label in zip(ordered, labels.tolist(), strict=True):
        components.setdefault(label, []).append(node)
    return list(components.values())


def unlinked_reasons(
    components: Iterable[Sequence[Node]], linked: Sequence[Node]
) -> dict[Node, str]:
    """Return why the nodes outside the component `linked` have no estimate."""
    return {
        node: f"no comparison links {name_nodes(other)} to {name_nodes(linked)}"
        for other in components
        if other is not linked
        for node in other
    }


def name_nodes(nodes: Iterable[int] | Iterable[Pair]) -> str:
    """Return text such as {1, 2}; a long list is shortened in the middle."""
    names = [str(node) for node in nodes]
    if len(names) > 12:
        names = [*names[:8], "...", *names[-2:]]
    return "{" + ", ".join(names) + "}"
