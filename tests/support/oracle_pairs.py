"""Plain loops with the results that the kernels for pairs and metrics must have."""

from __future__ import annotations

import math


def ranks(scores):
    """Return the rank of each document, from 0: best first, ties in their given order."""
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    rank = [0] * len(scores)
    for r, d in enumerate(order):
        rank[d] = r
    return rank


def discount_gap(rank, i, j):
    return abs(1 / math.log2(2 + rank[i]) - 1 / math.log2(2 + rank[j]))


def rho(x):
    x = min(max(x, -700.0), 700.0)
    return 1 / (1 + math.exp(x))


def softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


def pair_factor(scores, rank, i, j, *, objective, truncation, norm):
    """Return D of a pair, or None if the truncation level excludes it."""
    if objective == "ranknet":
        d = 1.0
    elif min(rank[i], rank[j]) >= truncation:
        return None
    else:
        d = discount_gap(rank, i, j)
    if norm and max(scores) != min(scores):
        d /= 0.01 + abs(scores[i] - scores[j])
    return d


def lambda_gradient(scores, pairs, *, sigma=1.0, truncation=30, norm=False, objective="lambdarank"):
    """Add the gradients of both preferences of each pair (i, j, u_ij, u_ji)."""
    n = len(scores)
    rank = ranks(scores)
    grad, hess, mass = [0.0] * n, [0.0] * n, 0.0
    for i, j, u_ij, u_ji in pairs:
        d = pair_factor(scores, rank, i, j, objective=objective, truncation=truncation, norm=norm)
        if d is None:
            continue
        for winner, loser, u in ((i, j, u_ij), (j, i, u_ji)):
            wrong = rho(sigma * (scores[winner] - scores[loser]))
            grad[winner] -= sigma * d * u * wrong
            grad[loser] += sigma * d * u * wrong
            mass += 2 * sigma * d * abs(u) * wrong
        wrong = rho(sigma * (scores[i] - scores[j]))
        curve = sigma**2 * d * wrong * (1 - wrong) * max(u_ij + u_ji, 0)
        hess[i] += curve
        hess[j] += curve
    if norm and mass > 0:
        factor = math.log2(1 + mass) / mass
        grad, hess = [g * factor for g in grad], [h * factor for h in hess]
    return grad, hess


def pair_loss(scores, pairs, factors, sigma=1.0):
    """Sum D (u_ij log(1 + exp(-sigma(f_i - f_j))) + the reverse), with D given per pair."""
    total = 0.0
    for (i, j, u_ij, u_ji), d in zip(pairs, factors, strict=True):
        apart = sigma * (scores[i] - scores[j])
        total += d * (u_ij * softplus(-apart) + u_ji * softplus(apart))
    return total


def position_losses(scores, positions, pairs, *, t_plus, t_minus, sigma=1.0):
    """Return the sums of docs/methods.md section 6 of one list; pairs: (i, j, n_ij, n_ji)."""
    rank, bins = ranks(scores), len(t_plus)
    plus, minus = [0.0] * bins, [0.0] * bins
    for i, j, n_ij, n_ji in pairs:
        for winner, loser, n in ((i, j, n_ij), (j, i, n_ji)):
            k = min(positions[winner], bins) - 1
            v = min(positions[loser], bins) - 1
            apart = sigma * (scores[winner] - scores[loser])
            loss = n * discount_gap(rank, i, j) * softplus(-apart)
            plus[k] += loss / t_minus[v]
            minus[v] += loss / t_plus[k]
    return plus, minus


def session_weights(
    clicks,
    theta,
    psi,
    method,
    *,
    prs_clip=math.inf,
    alpha=None,
    beta=None,
    kappa=None,
    stop=None,
    every_click=None,
):
    """Return u[i][j] of one session by the table of docs/methods.md section 4.

    stop: phi and beta of users who stop after clicks. every_click: the clicks after which they
    stop, if `clicks` are only those of a higher level of feedback.
    """
    n = len(clicks)
    u = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for j in range(n):
            if i == j:
                continue
            c_i, c_j = clicks[i], clicks[j]
            if method in {"naive", "counts"}:
                u[i][j] = c_i * (1 - c_j)
            elif method == "robust":
                u[i][j] = c_i * (1 - c_j) / theta[i]
            elif method == "robust+":
                u[i][j] = c_i * (1 - c_j) / theta[i]
                u[i][j] += max(1 / theta[i] - 1 / theta[j], 0) * c_i * c_j
            elif method == "ips-all":
                u[i][j] = c_i / theta[i]
            elif method == "pns":
                u[i][j] = theta[j] * c_i * (1 - c_j)
            elif method == "prs":
                u[i][j] = min(prs_clip, theta[j] / theta[i]) * c_i * (1 - c_j)
            elif method == "joint":
                u[i][j] = c_i * (1 - c_j) / theta[i]
                u[i][j] += (1 / theta[i] - 1 / psi[i][j]) * c_i * c_j
            elif method == "affine":
                both = c_i * c_j / kappa[i][j] - beta[j] * c_i - beta[i] * c_j + beta[i] * beta[j]
                u[i][j] = (c_i - beta[i]) / alpha[i] - both / (alpha[i] * alpha[j])
            elif method == "cascade":
                phi, go_on = stop
                p = [go_on**k * (1 - phi) ** sum((every_click or clicks)[:k]) for k in range(n)]
                u[i][j] = c_i / p[i] - c_i * c_j / p[max(i, j)]
            else:
                raise KeyError(method)
    return u


def ideal_dcg(clicks):
    return sum(1 / math.log2(k + 2) for k in range(sum(clicks)))


def ndcg(scores, labels, k):
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    best = sorted(labels, reverse=True)
    top = sum((2 ** labels[d] - 1) / math.log2(r + 2) for r, d in enumerate(order[:k]))
    return top / sum((2**y - 1) / math.log2(r + 2) for r, y in enumerate(best[:k]))


def average_precision(scores, labels):
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    hits = [r + 1 for r, d in enumerate(order) if labels[d] > 0]
    return sum((k + 1) / r for k, r in enumerate(hits)) / len(hits)


def relevant_position(scores, labels):
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    hits = [r + 1 for r, d in enumerate(order) if labels[d] > 0]
    return sum(hits) / len(hits)


def reciprocal_rank(scores, labels, max_label):
    order = sorted(range(len(scores)), key=lambda d: -scores[d])
    reached, total = 1.0, 0.0
    for r, d in enumerate(order):
        stop = (2 ** labels[d] - 1) / 2**max_label
        total += reached * stop / (r + 1)
        reached *= 1 - stop
    return total


def co_click_sums(sessions, theta, psi):
    """Return the number of pairs, their squared deviations from m over the variance by chance, and
    the expected contribution of a prior variance of 1. sessions: click vectors of one group."""
    n, sums = len(sessions), [0.0, 0.0, 0.0]
    for i in range(len(theta)):
        for j in range(i + 1, len(theta)):
            c_i, c_j = sum(s[i] for s in sessions), sum(s[j] for s in sessions)
            c_ij, c = sum(s[i] and s[j] for s in sessions), min(c_i, c_j)
            if c < 2:
                continue
            m = psi[i][j] * c_i * c_j / (psi[i][j] + (n - 1) * theta[i] * theta[j])
            chance = m * (1 - m / c) * (n - c) / (n - 1)
            if chance > 1e-9 * m:
                sums[0] += 1
                sums[1] += (c_ij - m) ** 2 / chance
                sums[2] += m**2 * (1 - 1 / c) / chance
    return sums
