"""Judgments against golden labels and the truth (docs/judgments.md).

    python -m tests.bench.judgments [--seeds 5] [--days 7] [--positive 1]

Logs of the demo, propensities estimated from the swaps of each log. First table: the rank
correlation with golden labels within queries (Somers' D: concordant minus discordant pairs over the
pairs of different labels, a tie counting as neither; and tau-b, whose denominator leaves out pairs
that the rating ties), mean over queries, of judgments, of clicks over examined impressions, of the
click rate, and of clicks over the clicks that positions get on average (COEC), with standard errors
over seeds. Second table: how often 95% intervals contain the true relevance, by clicks of the
document: of judgments, without the error of the propensities, and of the conjugate approximation
Beta(a + C, b + E - C).
"""

from __future__ import annotations

import argparse

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from rich.console import Console
from rich.table import Table
from scipy.special import betaincinv, expit
from scipy.stats import kendalltau

from tests.support.simulated_pages import simulated_pages
from ulr import judgments, propensities
from ulr.judgment.counts import by_document, join_curves, make_curves, sum_documents
from ulr.judgment.judge import TAIL
from ulr.judgment.prior import fit_prior
from ulr.kernels.relevance_posteriors import relevance_posteriors

KEYS = ["query_id", "doc_id"]
CLICKS = ((0, 0), (1, 2), (3, 9), (10, 29), (30, 99), (100, 10**9))
RATINGS = ("judgments", "judgments, prior=log", "clicks / examined", "click rate", "COEC")
INTERVALS = ("judgments", "exact propensities", "conjugate")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--days", type=int, default=7)
    parser.add_argument("--positive", type=float, default=1.0, help="P(click | examined, relevant)")
    args = parser.parse_args()
    runs = [run(seed, args.days, args.positive) for seed in range(1, args.seeds + 1)]
    console = Console(width=120)
    table = Table("rating", "Somers' D", "difference from judgments", "tau-b")
    found = np.array([[own[name] for name in RATINGS] for own, _ in runs])
    for n, name in enumerate(RATINGS):
        lead = _mean(found[:, 0, 0] - found[:, n, 0]) if n else ""
        table.add_row(name, _mean(found[:, n, 0]), lead, _mean(found[:, n, 1]))
    console.print(table)
    table = Table("clicks", "documents", *INTERVALS)
    covered = np.sum([coverage for _, coverage in runs], axis=0)
    for (low, high), row in zip((*CLICKS, (0, 10**9)), covered, strict=True):
        label = f"{low} to {high}" if high < 10**9 else f"from {low}"
        table.add_row(label, f"{row[0]:,.0f}", *(f"{x / row[0]:.1%}" for x in row[1:]))
    console.print(table)


def _mean(values: np.ndarray) -> str:
    error = values.std(ddof=1) / np.sqrt(values.size) if values.size > 1 else np.nan
    return f"{values.mean():.4f} ± {error:.4f}"


def run(seed: int, days: int, positive: float) -> tuple[dict[str, list[float]], np.ndarray]:
    """Return tau of every rating, and the documents and covered documents by clicks."""
    changes = {"seed": seed, "days": days, "clicks.positive": positive}
    log = simulated_pages(*(f"simulate.{k}={v}" for k, v in changes.items()), conf=["demo"])
    estimates = propensities(log.pages, min_coclicks=100)
    judged = (
        judgments(log.pages, estimates)
        .join(log.relevance, KEYS)
        .sort_by([(key, "ascending") for key in KEYS])
    )
    columns = {name: judged[name].to_numpy() for name in judged.column_names if name not in KEYS}
    clicks, sessions = columns["clicks"], columns["impressions"]
    documents = by_document(_shown(log.pages))
    order = [(key, "ascending") for key in KEYS]
    by_log = judgments(log.pages, estimates, prior="log").sort_by(order)["rating"].to_numpy()
    values = (columns["rating"], by_log, clicks / columns["examined"], clicks / sessions,
              _coec(documents))  # fmt: skip
    ratings = dict(zip(RATINGS, values, strict=True))
    truth = positive * columns["relevance"]
    intervals = [(columns["lower"], columns["upper"]), *_others(documents, estimates)]
    inside = [(low <= truth) & (truth <= high) for low, high in intervals]
    rows = []
    for low, high in (*CLICKS, (0, 10**9)):
        own = (clicks >= low) & (clicks <= high)
        rows.append([own.sum(), *((own & one).sum() for one in inside)])
    query = judged["query_id"].to_numpy()
    return {n: _correlations(query, r, columns["label"]) for n, r in ratings.items()}, np.array(
        rows, float
    )


def _shown(pages: pa.Table) -> pa.Table:
    """Return clicks and impressions of every document by segment and position."""
    lists = pages["doc_ids"].combine_chunks()
    owner = pc.list_parent_indices(lists)
    starts = lists.offsets.to_numpy()[owner.to_numpy()]
    position = np.arange(lists.offsets[0].as_py(), lists.offsets[-1].as_py()) - starts + 1
    rows = pages.select(["query_id", "segment"]).take(owner)
    rows = rows.append_column("doc_id", lists.flatten())
    rows = rows.append_column("position", pa.array(position.astype(np.int32)))
    clicks = pages["clicks"].combine_chunks().flatten().cast(pa.int64())
    rows = rows.append_column("clicks", clicks)
    names = [*KEYS, "segment", "position"]
    sums = rows.group_by(names).aggregate([("clicks", "sum"), ("clicks", "count")])
    return sums.rename_columns([*names, "clicks", "impressions"])


def _correlations(query: np.ndarray, rating: np.ndarray, label: np.ndarray) -> list[float]:
    """Return Somers' D and tau-b, the means over queries with different labels."""
    starts = np.flatnonzero(np.append(True, query[1:] != query[:-1]))
    parts = zip(np.split(rating, starts[1:]), np.split(label, starts[1:]), strict=True)
    rows = [(_somers(a, b), kendalltau(a, b).statistic) for a, b in parts if np.ptp(b) > 0]
    return np.nan_to_num(np.array(rows)).mean(axis=0).tolist()


def _somers(rating: np.ndarray, label: np.ndarray) -> float:
    """Return concordant minus discordant pairs, over the pairs of different labels."""
    by_label = np.sign(label[:, None] - label)
    return float((np.sign(rating[:, None] - rating) * by_label).sum() / np.abs(by_label).sum())


def _coec(documents: pa.Table) -> np.ndarray:
    """Return clicks over the sum of the mean click rates of the positions of all impressions."""
    flat = documents["cells"].combine_chunks().flatten()
    position, clicks, sessions = (
        flat.field(n).to_numpy() for n in ("position", "clicks", "impressions")
    )
    rate = np.bincount(position, clicks) / np.maximum(np.bincount(position, sessions), 1)
    document = np.repeat(
        np.arange(len(documents)), documents["cells"].combine_chunks().value_lengths()
    )
    expected = np.bincount(document, sessions * rate[position])
    return np.bincount(document, clicks) / expected


def _others(documents: pa.Table, estimates: object) -> list[tuple[np.ndarray, np.ndarray]]:
    """Return the intervals with exact propensities, and those of the conjugate approximation."""
    curves = make_curves(*estimates.examination(), affine=False)
    shown = join_curves(documents, curves).shown
    a, b, one = fit_prior(shown).of(shown)
    exact = relevance_posteriors(shown, a, b, one, TAIL, 0.5)
    clicks = sum_documents(shown, shown.clicks)
    examined = sum_documents(shown, shown.sessions * shown.alpha)
    misses = np.maximum(b + examined - clicks, 0.01)
    conjugate = [betaincinv(a + clicks, misses, tail) for tail in (TAIL, 1 - TAIL)]
    return [(expit(exact.lower), expit(exact.upper)), (conjugate[0], conjugate[1])]


if __name__ == "__main__":
    main()
