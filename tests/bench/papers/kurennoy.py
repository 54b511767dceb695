"""Kurennoy et al. 2022, tables 2 and 3: t+ given, p = 0, 1, 2, lists cut at 10, 20 and 30."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tests.bench.papers.cells import METRICS, Results, run_cells
from tests.bench.papers.claims import SIGNIFICANCE, Claim, difference
from tests.bench.papers.methods import IPS, JOINT, LABELS, NAIVE, Method, unbiased_lambdamart
from tests.bench.papers.page import Paper, Table
from tests.bench.papers.published import KURENNOY
from tests.bench.papers.worlds import Scale, World

CUTS = (10, 20, 30)
MIN_GAP = 0.05  # in NDCG@1
METHODS: dict[str, Method] = {
    "p0": unbiased_lambdamart(0, given=True),
    "naive": NAIVE,
    "p1": unbiased_lambdamart(1, given=True),
    "p2": unbiased_lambdamart(2, given=True),
    "robust": IPS,
    "joint": JOINT,
    "labels": LABELS,
}
NAMES = {
    "p0": "Unbiased LambdaMART, p = 0",
    "naive": "LambdaMART, clicks",
    "p1": "Unbiased LambdaMART, p = 1",
    "p2": "Unbiased LambdaMART, p = 2",
    "robust": "Robust Unbiased LambdaMART",
    "joint": "`joint` with precision, ulr",
    "labels": "LambdaMART, labels",
}
STRONG_PAIR = [METHODS["p2"], METHODS["robust"]]
# Every comparison with p = 0, as in the paper: browsing models x cuts x other rows x metrics.
COMPARISONS = 2 * len(CUTS) * (len(METHODS) - 1) * len(METRICS)


def world_of(browsing: str, cut: int) -> World:
    """Return the world of one block of a table: theta = 1 / k, 16 sessions a query, no noise."""
    return World(browsing, cut=cut, sessions=16)


def run(scale: Scale, processes: int) -> Paper:
    """Run all cells of both tables."""
    worlds = [(world_of(b, cut), list(METHODS.values())) for b, cut in KURENNOY]
    worlds += [(replace(world_of("independent", cut), strong=True), STRONG_PAIR) for cut in CUTS]
    results = run_cells(scale, worlds, processes=processes)
    tables = [
        _table(results, "continuous", "Table 2: continuous examination"),
        _table(results, "independent", "Table 3: independent examination"),
    ]
    setting = (
        "Kurennoy et al. 2022. theta = 1 / k, 16 "
        "sessions a query, t+ given. A cell is ours, then the published change in brackets; the "
        "rows p = 0 are absolute. Bold: significant at 5% after Bonferroni over all comparisons. "
        "The last column is the fraction of the gap from clicks to labels at NDCG@1."
    )
    return Paper("kurennoy", "Kurennoy 2022, tables 2 and 3", setting, tables, _claims(results))


def _table(results: Results, browsing: str, title: str) -> Table:
    rows = []
    for cut in CUTS:
        world, published = world_of(browsing, cut), KURENNOY[browsing, cut]
        for key in METHODS:
            cells = [_cell(results, world, key, i, published.get(key)) for i in range(len(METRICS))]
            ours = {k: results.mean(world, m, "NDCG@1") for k, m in METHODS.items()}
            base = published["p0"][0]
            theirs = {k: base * (1 + v[0] / 100) for k, v in published.items()} | {"p0": base}
            published_gap = f" ({gap_closed(theirs, key)})" if key in theirs else ""
            cells.append(gap_closed(ours, key) + published_gap)
            rows.append([str(cut) if key == "p0" else "", NAMES[key], *cells])
    return Table(title, ["cut", "method", *METRICS, "gap closed"], rows)


def gap_closed(means: Mapping[str, float], key: str) -> str:
    """Return the fraction of the gap from clicks to labels; a gap below MIN_GAP has none."""
    gap = means["labels"] - means["naive"]
    return f"{(means[key] - means['naive']) / gap:.0%}" if gap >= MIN_GAP else "–"


def _cell(
    results: Results, world: World, key: str, column: int, published: tuple[float, ...] | None
) -> str:
    metric = METRICS[column]
    base, own = (results.mean(world, METHODS[k], metric) for k in ("p0", key))
    if key == "p0":
        return f"{own:.3f}" + (f" ({published[column]:.3f})" if published else "")
    change = f"{100 * (own / base - 1):+.1f}%"
    p = difference(results, world, METHODS[key], METHODS["p0"], metric).p_value
    if p * COMPARISONS < SIGNIFICANCE:
        change = f"**{change}**"
    return change + (f" ({published[column]:+.1f}%)" if published else "")


def _claims(results: Results) -> list[Claim]:
    """Return the comparisons that the paper's text makes, at NDCG@1."""
    claims = []
    for browsing, cut in KURENNOY:
        pairs = [("robust", "naive"), ("labels", "robust")]
        first = (browsing, cut) == ("independent", 10)
        pairs.append(("p0", "robust") if first else ("robust", "p0"))
        if cut > 10:
            pairs += [("p1", "p0"), ("p2", "p1")]
        if browsing == "independent" or cut > 10:
            pairs.append(("robust", "p2") if browsing == "continuous" else ("p2", "robust"))
        world = world_of(browsing, cut)
        for better, worse in pairs:
            own = difference(results, world, METHODS[better], METHODS[worse], "NDCG@1")
            text = f"{browsing}, cut {cut}, NDCG@1: {NAMES[better]} above {NAMES[worse]}"
            claims.append(Claim(text, own, _why(better, worse)))
        if browsing == "independent":
            own = difference(results, replace(world, strong=True), *STRONG_PAIR, "NDCG@1")
            text = f"{NAMES['p2']} above {NAMES['robust']}, strong production ranker"
            claims.append(Claim(f"{browsing}, cut {cut}, NDCG@1: {text}", own, extra=True))
    return claims


def _why(better: str, worse: str) -> str:
    if (better, worse) == ("p2", "robust"):
        return (
            "t- also absorbs how relevance falls with position under the production ranker, which "
            "is weak on the built-in corpus. In the rows `strong production ranker` it is golden "
            "labels with noise, and the two are level. In the paper the difference is about 1%."
        )
    return ""
