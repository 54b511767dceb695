"""Swap experiments on the serving side: assign a request to a bucket and arm, and order its page.

A serving system needs only this file and `buckets.py`. The same request id, salt and plan give the
same assignment on every server; a different salt gives an independent assignment. Servers in other
languages repeat the hash of `_uniform`; docs/serving-experiments.md has Java and JavaScript.

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
    """Buckets, each with its fraction of all traffic; the remaining requests are in no bucket.

    swapped: buckets with the fraction of their pages in the swapped arm, if it is not a half.
    """

    salt: str
    buckets: tuple[tuple[str, float], ...]
    swapped: tuple[tuple[str, float], ...] = ()

    def swapped_fraction(self, bucket: str) -> float:
        """Return the fraction of a bucket's pages that are swapped."""
        return dict(self.swapped).get(bucket, 0.5)


class Assignment(NamedTuple):
    """The values to log, bucket and swapped; both are None for a request in no bucket.

    seed: the salt and the request id, which order the page of a shuffle; it need not be logged.
    """

    bucket: str | None
    swapped: bool | None
    seed: tuple[str, ...] = ()


NONE = Assignment(None, None)


def load_plan(text: str) -> Plan:
    """Return the plan that `ulr plan-swaps` wrote as JSON; raise ValueError if it is invalid.

    A bucket may have a number `swapped`, the fraction of its pages to swap, by default a half.
    """
    content = json.loads(text)
    buckets = tuple((b["bucket"], float(b["fraction"])) for b in content["buckets"])
    swapped = tuple(
        (b["bucket"], float(b["swapped"])) for b in content["buckets"] if "swapped" in b
    )
    for name, fraction in swapped:
        if not 0 < fraction < 1:
            raise ValueError(f"bucket {name}: swapped is {fraction}, not between 0 and 1")
    for name, fraction in buckets:
        parse_bucket(name)
        if fraction < 0:
            raise ValueError(f"bucket {name}: fraction {fraction} is negative")
    total = sum(fraction for _, fraction in buckets)
    if total > 1 + 1e-9:
        raise ValueError(f"the fractions of the buckets add up to {total}, more than 1")
    return Plan(str(content["salt"]), buckets, swapped)


def assign(request_id: str, plan: Plan, length: int) -> Assignment:
    """Return the bucket and arm of a request whose page has `length` documents.

    A page of a shuffle has no arm and counts as swapped.
    A request whose page is too short for its bucket is in no bucket: moving it to another bucket
    would give the buckets different traffic.
    """
    draw = _uniform(plan.salt, "bucket", request_id)
    for name, fraction in plan.buckets:
        if draw < fraction:
            bucket = parse_bucket(name)
            if bucket.last_position > length:
                return NONE
            if bucket.shuffled is not None:
                return Assignment(name, True, (plan.salt, request_id))
            arm = _uniform(plan.salt, "arm", name, request_id)
            return Assignment(name, arm < plan.swapped_fraction(name))
        draw -= fraction
    return NONE


def arrange(documents: Sequence[Document], chosen: Assignment) -> list[Document]:
    """Return the documents in the order to show.

    A shuffle sorts the documents by a hash of salt, request id and their index, counted from 0.
    """
    if chosen.bucket is None or not chosen.swapped:
        return list(documents)
    bucket, length = parse_bucket(chosen.bucket), len(documents)
    if bucket.shuffled is None:
        return [documents[i] for i in permutation(bucket, length)]
    first = range(min(bucket.shuffled or length, length))
    order = sorted(first, key=lambda i: _uniform("order", *chosen.seed, str(i)))
    return [documents[i] for i in order] + list(documents[len(first) :])


def _uniform(*parts: str) -> float:
    """Return a hash of the parts as a number in [0, 1).

    Hashed is each part in UTF-8, after its length in bytes and a colon. The number is the first 53
    bits of the SHA-256, so that a double holds it exactly.
    """
    encoded = [part.encode() for part in parts]
    digest = hashlib.sha256(b"".join(b"%d:%b" % (len(part), part) for part in encoded)).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53
