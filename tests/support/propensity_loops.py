"""Plain loops over single sessions: slow, obvious, and what the fast code is held to.

A session is a list of 0/1 clicks in displayed order.
"""

from __future__ import annotations

import math


def arm_counts(sessions, positions, conditions=()):
    """Co-click matrices: of all sessions, and of those that clicked all of each condition."""
    matrices = []
    for condition in [(), *conditions]:
        co_clicks = [[0] * positions for _ in range(positions)]
        for clicks in sessions:
            if all(clicks[p - 1] for p in condition):
                for a in range(min(positions, len(clicks))):
                    for b in range(min(positions, len(clicks))):
                        co_clicks[a][b] += clicks[a] * clicks[b]
        matrices.append(co_clicks)
    return matrices


def pooled_swap_ratio(kept, swapped, a, b):
    """theta(b) / theta(a) from a bucket a:b, both documents, both arms."""
    at_b = sum(s[b - 1] for s in kept) / len(kept) + sum(s[b - 1] for s in swapped) / len(swapped)
    at_a = sum(s[a - 1] for s in kept) / len(kept) + sum(s[a - 1] for s in swapped) / len(swapped)
    return at_b / at_a


def one_document_swap_ratio(kept, swapped, a, b):
    """theta(b) / theta(a) from the document ranked at b alone."""
    at_b = sum(s[b - 1] for s in kept) / len(kept)
    at_a = sum(s[a - 1] for s in swapped) / len(swapped)
    return at_b / at_a


def pooled_log_variance(kept, swapped, a, b):
    """Variance of the pooled log ratio: that of each session's own share in it."""
    rate = [
        sum(s[p - 1] for s in kept) / len(kept) + sum(s[p - 1] for s in swapped) / len(swapped)
        for p in (a, b)
    ]
    total = 0.0
    for arm in (kept, swapped):
        shares = [s[b - 1] / rate[1] - s[a - 1] / rate[0] for s in arm]
        mean = sum(shares) / len(arm)
        total += sum((x - mean) ** 2 for x in shares) / len(arm) ** 2
    return total


def joint_swap_ratio(kept, swapped, deep, top):
    """psi(deep) / psi(top) from a bucket top:deep with no position in common."""
    rates = []
    for p, q in (deep, top):
        rates.append(
            sum(s[p - 1] * s[q - 1] for s in kept) / len(kept)
            + sum(s[p - 1] * s[q - 1] for s in swapped) / len(swapped)
        )
    return rates[0] / rates[1]


def shuffle_ratio(pages, deep, top):
    """theta or psi at `deep` over that at `top`, from pages long enough for both."""
    pages = [s for s in pages if len(s) >= max(deep)]
    at = [sum(all(s[p - 1] for p in where) for s in pages) for where in (deep, top)]
    return at[0] / at[1]


def shuffle_log_covariance(pages, one, other, top):
    """Covariance of two log ratios over `top`: products of each page's shares in them."""
    total = 0.0
    sums = {}
    for deep in (one, other):
        long = [s for s in pages if len(s) >= max(deep)]
        sums[deep] = [sum(all(s[p - 1] for p in w) for s in long) for w in (deep, top)]
    for s in pages:
        share = 1.0
        for deep in (one, other):
            if len(s) < max(deep):
                share = 0.0
            else:
                at = [all(s[p - 1] for p in w) for w in (deep, top)]
                share *= at[0] / sums[deep][0] - at[1] / sums[deep][1]
        total += share
    return total


def harvest_pairs(seen, weight):
    """(k, l) -> [weighted clicks at k, weight] over documents seen at both.

    seen: document -> {position: (clicks, impressions)}.
    """
    table = {}
    for where in seen.values():
        for k, (clicks, n) in where.items():
            for v, (_, m) in where.items():
                if k != v:
                    w = n * m / (n + m) if weight == "pooled" else 1.0
                    entry = table.setdefault((k, v), [0.0, 0.0])
                    entry[0] += w * clicks / n
                    entry[1] += w
    return table


def day_pairs(seen):
    """(k, l) -> weighted clicks at k: compared within days, and between days.

    seen: document -> {(day, position): (clicks, impressions)}.
    """
    table = {}
    for where in seen.values():
        for k, v in {(a[1], b[1]) for a in where for b in where if a[1] != b[1]}:
            table.setdefault((k, v), [0.0, 0.0])
        for (day, k), (c, n) in where.items():
            for v in {at[1] for at in where} - {k}:
                if (day, v) in where:
                    m = where[day, v][1]
                    table[k, v][0] += n * m / (n + m) * c / n
                others = [x for at, x in where.items() if at[1] == v and at[0] != day]
                e, m = (sum(x[i] for x in others) for i in (0, 1))
                if m:
                    table[k, v][1] += n * m / (n + m) * c / n
                    table[v, k][1] += n * m / (n + m) * e / m
    return table


def steepness(documents, left_out):
    """Minus the covariance of clicks and mean log positions at fixed positions, per click.

    documents: of one query, document -> {position: (clicks, impressions)}, without `left_out`.
    """
    others = {d: where for d, where in documents.items() if d != left_out}
    mean = {
        d: sum(n * math.log(k) for k, (_, n) in where.items())
        / sum(n for _, n in where.values())
        for d, where in others.items()
    }  # fmt: skip
    covariance = clicks = 0.0
    for k in {k for where in others.values() for k in where}:
        here = [(*where[k], mean[d]) for d, where in others.items() if k in where]
        total = sum(n for _, n, _ in here)
        rate = sum(c for c, _, _ in here) / total
        centre = sum(n * x for _, n, x in here) / total
        covariance += sum((c - n * rate) * (x - centre) for c, n, x in here)
        clicks += sum(c for c, _, _ in here)
    return -covariance / max(clicks, 1)


def em_step(theta, relevance, rows):
    """One round of EM. rows: (document, position, clicks, impressions)."""
    examined = [[0.0, 0.0] for _ in theta]
    relevant = [[0.0, 0.0] for _ in relevance]
    for document, position, clicks, impressions in rows:
        t, r = theta[position - 1], relevance[document]
        unclicked = impressions - clicks
        examined[position - 1][0] += clicks + unclicked * t * (1 - r) / (1 - t * r)
        examined[position - 1][1] += impressions
        relevant[document][0] += clicks + unclicked * r * (1 - t) / (1 - t * r)
        relevant[document][1] += impressions
    return [a / b for a, b in examined], [a / b for a, b in relevant]


def row_skipping_psi(gamma, continue_probability, width, k, v):
    """P(positions k and v both examined), by following every way a user may take."""
    total = 0.0
    stack = [(0, 1.0, False, frozenset())]
    while stack:
        at, chance, in_row, seen = stack.pop()
        if at >= max(k, v):
            total += chance * (k in seen and v in seen)
        elif at % width == 0 and not in_row:
            stack.append((at + width, chance * gamma, False, seen))
            stack.append((at, chance * (1 - gamma), True, seen))
        else:
            now = seen | {at + 1}
            total += chance * (1 - continue_probability[at]) * (k in now and v in now)
            stays = (at + 1) % width != 0
            stack.append((at + 1, chance * continue_probability[at], stays, now))
    return total


def log_sum(values):
    """The product by way of logs."""
    return math.exp(sum(math.log(v) for v in values))


def document_counts(rows):
    """(segment, bucket, query, document) -> clicks and impressions at 1, then at k of 1:k.

    rows: of the groups table, as `session_groups.group` makes them.
    """
    table = {}
    for row in rows:
        sides = (row["bucket"] or "").split(":")
        if len(sides) != 2 or sides[0] != "1" or "," in sides[1]:
            continue
        for place, position in enumerate((1, int(sides[1]))):
            if position <= len(row["doc_ids"]):
                key = (row["segment"], row["bucket"], row["query_id"], row["doc_ids"][position - 1])
                entry = table.setdefault(key, [0, 0, 0, 0])
                clicks = [
                    n * (word >> (position - 1) & 1)
                    for word, n in zip(row["patterns"], row["counts"], strict=True)
                ]
                entry[2 * place] += sum(clicks)
                entry[2 * place + 1] += sum(row["counts"])
    return table


def trust_moments(documents, block_of):
    """(segment, bucket, block) -> number of documents and the eight moments, summed exactly.

    documents: as `document_counts` returns them. A term is rounded to a multiple of 2^-56.
    """
    table = {}
    for (segment, bucket, query, _), (c, n, d, m) in documents.items():
        if n > 3 and m > 0:
            w, y, powers = n * m / (n + m), d / m, [1.0]
            for i in range(4):
                powers.append(powers[-1] * (c - i) / (n - i))
            terms = [w * x for x in powers] + [w * x * y for x in powers[:3]]
            entry = table.setdefault((segment, bucket, block_of(query)), [0] * 17)
            entry[0] += 1
            for i, term in enumerate(terms):
                units = math.floor(term * 2.0**20)
                rest = (term * 2.0**20 - units) * 2.0**36
                entry[1 + 2 * i] += units
                entry[2 + 2 * i] += math.floor(rest) + (rest - math.floor(rest) >= 0.5)
    return {
        key: [sums[0], *(sums[i] / 2**20 + sums[i + 1] / 2**56 for i in range(1, 17, 2))]
        for key, sums in table.items()
    }
