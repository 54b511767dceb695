"""Test vectors of a plan: requests with their bucket, arm and order, to test other servers with."""

from __future__ import annotations

import json
from typing import Any

from ulr.experiments.buckets import parse_bucket
from ulr.experiments.serving import Plan, arrange, assign, load_plan

NUMBER = 10
UNASSIGNED = 2  # requests in no bucket among them
SEARCHED = 20_000  # requests among which one is looked for in every bucket and arm
# Beginnings of ids; the length of three of them differs between characters, UTF-16 and UTF-8.
NAMES = ("\u00fcber", "\u691c\u7d22", "\U0001f50e", "request")
Vector = dict[str, Any]


def with_vectors(text: str) -> str:
    """Return the JSON of a plan with new test vectors; call it after editing a plan."""
    content: dict[str, Any] = json.loads(text)
    return json.dumps(content | {"test_vectors": make_vectors(load_plan(text))}, indent=1) + "\n"


def make_vectors(plan: Plan) -> list[Vector]:
    """Return ten requests with their results; the same plan gives the same vectors.

    documents: the length of the page; order: for every place of the page, the index (from 0) of the
    document to show there. The first page is too short for its bucket. The others are of different
    kinds of buckets and arms; two are in no bucket.
    """
    length = 2 + max((parse_bucket(name).last_position for name, _ in plan.buckets), default=1)
    assigned, others = _examples(plan, length)
    number = min(len(assigned), NUMBER - 1 - min(len(others), UNASSIGNED))
    requests = [*assigned[:number], *others[: NUMBER - 1 - number]]
    first = requests[0]
    bucket = assign(first, plan, length).bucket
    shorter = parse_bucket(bucket).last_position - 1 if bucket else length - 1
    pages = [(first, shorter), *((request, length) for request in requests)]
    return [_vector(plan, request, documents) for request, documents in pages]


def _examples(plan: Plan, length: int) -> tuple[list[str], list[str]]:
    """Return requests in buckets, those with a new kind and arm first, and others in none."""
    assigned: dict[str, tuple[bool, int, bool | None, int]] = {}
    seen: dict[tuple[bool, int, bool | None], int] = {}
    others: list[str] = []
    for n in range(SEARCHED):
        request = f"{NAMES[n % len(NAMES)]}-{n}"
        found = assign(request, plan, length)
        if found.bucket is None:
            others += [request] if len(others) < NUMBER else []
            continue
        bucket = parse_bucket(found.bucket)
        kind = (bucket.shuffled is not None, len(bucket.target), found.swapped)
        seen[kind] = seen.get(kind, 0) + 1
        if seen[kind] <= NUMBER:
            assigned[request] = (*kind, seen[kind])
        if len(assigned) >= 4 * NUMBER and len(others) == NUMBER:
            break
    return sorted(assigned, key=lambda request: assigned[request][-1]), others


def _vector(plan: Plan, request: str, documents: int) -> Vector:
    found = assign(request, plan, documents)
    return {"request_id": request, "documents": documents, "bucket": found.bucket,
            "swapped": found.swapped, "order": arrange(range(documents), found)}  # fmt: skip
