"""Plain loops with the results that the fast code must have; slow, and easy to check by eye."""

from __future__ import annotations

from collections import Counter

MASK = 2**64 - 1
P1, P2, P3, P4, P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def _rotate(x: int, bits: int) -> int:
    return ((x << bits) | (x >> (64 - bits))) & MASK


def _round(lane: int, word: int) -> int:
    return _rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def xxhash64(data: bytes, seed: int = 42) -> int:
    """Return XXH64, written from its specification."""
    at = 0
    if len(data) >= 32:
        lanes = [(seed + P1 + P2) & MASK, (seed + P2) & MASK, seed, (seed - P1) & MASK]
        while at + 32 <= len(data):
            for i in range(4):
                word = int.from_bytes(data[at + 8 * i : at + 8 * i + 8], "little")
                lanes[i] = _round(lanes[i], word)
            at += 32
        h = (
            sum(_rotate(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
            & MASK
        )
        for lane in lanes:
            h = ((h ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        h = (seed + P5) & MASK
    h = (h + len(data)) & MASK
    while at + 8 <= len(data):
        h ^= _round(0, int.from_bytes(data[at : at + 8], "little"))
        h = (_rotate(h, 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= len(data):
        h ^= int.from_bytes(data[at : at + 4], "little") * P1 & MASK
        h = (_rotate(h, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h ^= byte * P5 & MASK
        h = _rotate(h, 11) * P1 & MASK
    h = (h ^ (h >> 33)) * P2 & MASK
    h = (h ^ (h >> 29)) * P3 & MASK
    return h ^ (h >> 32)


def ranking_hash(doc_ids: list[str]) -> int:
    """Return Spark's xxhash64(transform(doc_ids, d -> xxhash64(d))), a signed 64-bit integer."""
    h = 42
    for doc in doc_ids:
        h = xxhash64(xxhash64(doc.encode()).to_bytes(8, "little"), h)
    return h - 2**64 if h >= 2**63 else h


def broken_rule(page: dict) -> str | None:
    """Return the first rule of the contract that a page breaks."""
    docs, clicks = page["doc_ids"], page["clicks"]
    bucket, swapped = page["bucket"], page["swapped"]
    for name in ("session_id", "query_id"):
        if not page[name]:
            return f"null_{name}"
    if page["shown_at"] is None:
        return "null_shown_at"
    if not 2000 <= page["shown_at"].year <= 2100:
        return "date_out_of_range"
    for name in ("doc_ids", "clicks"):
        if page[name] is None:
            return f"null_{name}"
    if len(docs) != len(clicks):
        return "length_mismatch"
    if not docs:
        return "empty_page"
    if not all(docs):
        return "null_doc_id"
    if any(c is None for c in clicks):
        return "null_click"
    if len(set(docs)) < len(docs):
        return "duplicate_document"
    if bucket is not None:
        depth = bucket_depth(bucket)
        if depth is None:
            return "bad_bucket"
        if depth > len(docs):
            return "bucket_past_end"
        if swapped is None and not bucket.startswith("shuffle"):
            return "bucket_without_arm"
    elif swapped:
        return "swap_without_bucket"
    return None


def bucket_depth(text: str) -> int | None:
    """Return the deepest position of a well-formed bucket, None for any other text."""
    if text == "shuffle":
        return 1
    if text.startswith("shuffle:"):
        number = text[len("shuffle:") :]
        return int(number) if number.isdigit() and number[0] != "0" and number != "1" else None
    sides = []
    for side in text.split(":"):
        numbers = []
        for number in side.split(","):
            if not number or any(c not in "0123456789" for c in number) or number[0] == "0":
                return None
            numbers.append(int(number))
        sides.append(numbers)
    if len(sides) != 2 or len(sides[0]) != len(sides[1]) or len(sides[0]) > 2:
        return None
    if any(side != sorted(set(side)) for side in sides) or sides[0] == sides[1]:
        return None
    return max(sides[0] + sides[1])


def click_histograms(pages: list[dict], max_position: int) -> dict[tuple, Counter]:
    """Count sessions by (query, segment, bucket, arm, documents) and click vector."""
    groups: dict[tuple, Counter] = {}
    for page in pages:
        arm = page["swapped"] if page["bucket"] is not None else None
        docs = tuple(page["doc_ids"][:max_position])
        key = (page["query_id"], page["segment"], page["bucket"], arm, docs)
        groups.setdefault(key, Counter())[tuple(page["clicks"][:max_position])] += 1
    return groups


def expand_groups(rows: list[dict]) -> dict[tuple, Counter]:
    """Return the rows of a groups table as histograms of click vectors."""
    groups: dict[tuple, Counter] = {}
    for row in rows:
        docs = tuple(row["doc_ids"])
        width = (len(docs) + 63) // 64
        histogram: Counter = Counter()
        for i, count in enumerate(row["counts"]):
            words = row["patterns"][i * width : (i + 1) * width]
            clicks = tuple(bool(words[k // 64] >> (k % 64) & 1) for k in range(len(docs)))
            histogram[clicks] += count
        key = (row["query_id"], row["segment"], row["bucket"], row["swapped"], docs)
        if key in groups:
            raise AssertionError(f"group {key} is in the table twice")
        groups[key] = histogram
    return groups
