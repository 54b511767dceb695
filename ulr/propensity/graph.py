"""What is linked with what: propensities are identified only within a connected component.

Oosterhuis 2022 section 6.1: two positions can be compared when some document was seen at both;
positions that no chain of such comparisons joins have no common scale.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeVar

Node = TypeVar("Node")


def connected_components(
    nodes: Iterable[Node], edges: Iterable[tuple[Node, Node]]
) -> list[list[Node]]:
    """Components in order of their smallest node, each in rising order."""
    root = {node: node for node in nodes}

    def find(node: Node) -> Node:
        while root[node] != node:
            root[node] = root[root[node]]
            node = root[node]
        return node

    for a, b in edges:
        low, high = sorted((find(a), find(b)))
        root[high] = low
    found: dict[Node, list[Node]] = {}
    for node in sorted(root):
        found.setdefault(find(node), []).append(node)
    return [found[low] for low in sorted(found)]


def name_nodes(nodes: Iterable[Node]) -> str:
    """{1, 2} for people; a long run of positions is cut in the middle."""
    names = [str(node) for node in nodes]
    if len(names) > 12:
        names = [*names[:8], "...", *names[-2:]]
    return "{" + ", ".join(names) + "}"
