"""Pages that recorded the features of their documents, and their last vectors by plain loops."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections import Counter

import pyarrow as pa

from tests.support.logs import NOON, page
from ulr.clicklog.vectors import hash_vectors
from ulr.warehouse.schema import FEATURES

WIDTH = 3


def logged_log(pages: int, seed: int) -> tuple[list[dict], list[dict], Counter]:
    """Return rows in random order, the good pages that count, and the bad rows by reason.

    Pages are shown at three times, so that vectors meet at one time. Some pages are delivered
    twice, some session ids have a later page that must not count.
    """
    rng = random.Random(seed)
    log, good, reasons = [], [], Counter()
    for number in range(pages):
        row = _page(number, rng)
        fault = rng.choice(["features_mismatch", "wrong_vector", "null_query_id"])
        if rng.random() < 0.1 and row[FEATURES]:
            log.append(row | _broken(fault, row) | {"shown_at": NOON + dt.timedelta(hours=3)})
            reasons[fault] += 1
            continue
        log.append(row)
        good.append(row)
        if rng.random() < 0.1:
            log.append(dict(row))
        if rng.random() < 0.05:
            log.append(_page(number, rng) | {"shown_at": NOON + dt.timedelta(hours=2)})
    rng.shuffle(log)
    return log, good, reasons


def _page(number: int, rng: random.Random) -> dict:
    row = page(number, rng)
    row["shown_at"] += dt.timedelta(seconds=rng.randint(0, 2))
    row[FEATURES] = None if rng.random() < 0.05 else [_vector(rng) for _ in row["doc_ids"]]
    return row


def _vector(rng: random.Random) -> list | None:
    if rng.random() < 0.1:
        return None
    return [rng.choice([None, 0.1, 1.0, -2.5, 1e-9]) for _ in range(WIDTH)]


def _broken(fault: str, row: dict) -> dict:
    vectors = row[FEATURES]
    return {
        "features_mismatch": {FEATURES: [*vectors, [1.0] * WIDTH]},
        "wrong_vector": {FEATURES: [*vectors[:-1], [1.0] * (WIDTH + 1)]},
        "null_query_id": {"query_id": None},
    }[fault]


def last_vectors(good: list[dict]) -> dict[tuple[str, str], tuple]:
    """Return (time, vector, pages) of every (query, document)."""
    seen: dict[tuple[str, str], Counter] = {}
    for row in good:
        for doc, vector in zip(row["doc_ids"], row[FEATURES] or [], strict=False):
            if vector is not None:
                of_document = seen.setdefault((row["query_id"], doc), Counter())
                of_document[row["shown_at"], rounded(vector)] += 1
    result = {}
    for key, values in seen.items():
        at, vector = max(values, key=lambda v: (v[0], _hash(v[1])))
        result[key] = (at, vector, values[at, vector])
    return result


def rounded(vector: list) -> tuple:
    """Return the numbers as float32, None for a missing value."""
    typed = pa.array(vector, pa.float64()).cast(pa.float32()).to_pylist()
    return tuple(None if v is None or math.isnan(v) else v for v in typed)


def _hash(vector: tuple) -> int:
    column = pa.chunked_array([pa.array([list(vector)], pa.list_(pa.float32()))])
    return int(hash_vectors(column)[0])
