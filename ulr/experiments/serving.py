"""Swap experiments on the serving side: who takes part, in which arm, and what is shown.

Needs this file and `buckets.py` and nothing else. The same request id, salt and plan give the same
answer on every server, for ever; another salt gives an unrelated draw.

    plan = load_plan(open("plan.json").read())
    chosen = assign(request_id, plan, len(documents))
    documents = arrange(documents, chosen)     # show these, and log chosen.bucket, chosen.swapped
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from ulr.experiments.buckets import parse_bucket, permutation

Document = TypeVar("Document")


class Plan(NamedTuple):
    """Buckets with their shares of all traffic; the rest takes part in none."""

    salt: str
    buckets: tuple[tuple[str, float], ...]


class Assignment(NamedTuple):
    """What to log: both None where the request takes no part."""

    bucket: str | None
    swapped: bool | None


NONE = Assignment(None, None)


def load_plan(text: str) -> Plan:
    """Read the JSON that `ulr plan-swaps` writes; ValueError if it could not be served."""
    content = json.loads(text)
    buckets = tuple((b["bucket"], float(b["fraction"])) for b in content["buckets"])
    for name, fraction in buckets:
        parse_bucket(name)
        if fraction < 0:
            raise ValueError(f"bucket {name}: fraction {fraction} is below 0")
    total = sum(fraction for _, fraction in buckets)
    if total > 1 + 1e-9:
        raise ValueError(f"the fractions of the buckets add up to {total}, more than 1")
    return Plan(str(content["salt"]), buckets)


def assign(request_id: str, plan: Plan, length: int) -> Assignment:
    """Bucket and arm of a request whose page has `length` documents.

    A page too short for its bucket takes no part; it is not moved to another bucket, because that
    would make the buckets' traffic differ.
    """
    draw = _uniform(plan.salt, "bucket", request_id)
    for name, fraction in plan.buckets:
        if draw < fraction:
            if parse_bucket(name).last_position > length:
                return NONE
            return Assignment(name, _uniform(plan.salt, "arm", name, request_id) < 0.5)
        draw -= fraction
    return NONE


def arrange(documents: Sequence[Document], chosen: Assignment) -> list[Document]:
    """The documents in the order to show."""
    if chosen.bucket is None or not chosen.swapped:
        return list(documents)
    return [documents[i] for i in permutation(parse_bucket(chosen.bucket), len(documents))]


def _uniform(*parts: str) -> float:
    """A number in [0, 1) from the parts; lengths are hashed too, so no two lists run together."""
    text = "".join(f"{len(part)}:{part}" for part in parts)
    digest = hashlib.blake2b(text.encode(), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2.0**53
