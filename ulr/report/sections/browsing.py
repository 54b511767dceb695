"""psi by pair of positions, estimated or imputed, and the browsing models behind it."""

from __future__ import annotations

from collections import Counter
from typing import Any

from ulr.report.blocks import Figure, Table
from ulr.report.charts.heatmap import PairsMap
from ulr.report.charts.rows import BarsChart, Value
from ulr.report.facts import Facts, Row, require, segment_name, segments_of
from ulr.report.format import UNKNOWN, count, fixed, interval, known

DRAWN, DEEPEST = 3, 20  # maps, the one of all traffic included; positions in a map and its table
MEANING = {
    "independent": "positions are examined independently of each other",
    "continuous": "users read down from the top and stop at some position",
    "row_skipping": "users read row by row, and may skip rows",
    "cascade": "users read down from the top and may leave after a click; no psi describes this",
}
Psi = dict[tuple[int, int], float]


def context(facts: Facts) -> dict[str, Any]:
    """Return a map of all pairs per segment, and the comparison of the browsing models."""
    rows = require(facts, "joint", "table of pairs")
    segments = segments_of(rows)
    shallow = {s: [r for r in rows if r["segment"] == s and r["l"] <= DEEPEST]
               for s in segments[:DRAWN]}  # fmt: skip
    models = sorted({r["browsing"] for r in rows})
    fits = [r for r in facts.diagnostics if r["check"] == "browsing" and known(r["value"])]
    # A model that cannot be fitted is replaced by another, so compare the setting with the rows.
    selected = facts.settings.get("propensities.browsing_model") == rows[0]["browsing"]
    return {
        "number": len(rows),
        "sources": Counter(r["source"] for r in rows),
        "has_coclicks": facts.settings.get("propensities.joint") != "none",
        "models": ", ".join(models),
        "model": rows[0]["browsing"],
        "meaning": MEANING.get(rows[0]["browsing"], ""),
        "selected": selected,
        "fitted": bool(fits),
        "figures": [(s, _map(facts, own, s)) for s, own in shallow.items() if own],
        "deepest": DEEPEST,
        "pairs_left": sum(row["l"] > DEEPEST for row in rows),
        "segments_left": len(segments) - DRAWN,
        "comparison": None if selected else _comparison(fits),
    }


def _true_psi(facts: Facts, segment: str | None) -> Psi:
    """Return the simulator's psi by pair, scaled so that theta(1) = 1."""
    psi = {(r["k"], r["l"]): r["psi"] for r in facts.truth if r["segment"] == segment}
    first = psi.get((1, 1))
    return {pair: value / first for pair, value in psi.items()} if first else {}


def _map(facts: Facts, own: list[Row], segment: str | None) -> Figure:
    name, size = segment_name(segment), max(r["l"] for r in own)
    truth = _true_psi(facts, segment)
    cells = {(r["k"], r["l"]): (r["psi"], r["source"]) for r in own}
    cells |= {(k, k): (theta, "theta") for k, theta in _theta(facts, segment) if k <= size}
    cells |= {(v, k): (psi, "truth") for (k, v), psi in truth.items() if k < v <= size}
    values = [r["psi"] for r in own if known(r["psi"])]
    sources = Counter(r["source"] for r in own)
    description = f"Joint examination by pair of positions, {name}: " + (
        f"from {min(values):.3f} to {max(values):.3f}; " if values else ""
    ) + ", ".join(f"{n} {source}" for source, n in sources.items())  # fmt: skip
    chart = PairsMap(description, size, cells)
    return Figure(chart, _caption(sources, bool(truth)), _table(own, truth, name))


def _theta(facts: Facts, segment: str | None) -> list[tuple[int, float | None]]:
    return [(r["position"], r["theta"]) for r in facts.curve if r["segment"] == segment]


def _caption(sources: Counter[str], truth: bool) -> str:
    text = "Row k, column l: psi above the diagonal, theta on it"
    text += ", the simulator's true psi below it (grey)." if truth else "."
    if sources["estimated"] and sources["imputed"]:
        text += " Outlined pairs are estimated, the others are imputed."
    elif sources["imputed"]:
        text += " All pairs are imputed."
    elif sources["estimated"]:
        text += " Outlined pairs are estimated."
    return text + (" × marks pairs with too little data." if sources["insufficient"] else "")


def _table(own: list[Row], truth: Psi, name: str) -> Table:
    headings = ["k", "l", "psi", "95% interval", "co-clicks", "source",
                *(["truth"] if truth else []), "note"]  # fmt: skip
    rows = [
        [count(r["k"]), count(r["l"]), fixed(r["psi"]),
         interval(r["lower"], r["upper"]) if known(r["psi"]) else UNKNOWN,
         count(r["support"]), r["source"],
         *([fixed(truth.get((r["k"], r["l"])))] if truth else []), r["note"]]
        for r in own
    ]  # fmt: skip
    return Table(f"psi, {name}", headings, rows)


def _comparison(fits: list[Row]) -> Figure | None:
    """Return the BIC of every model over all traffic, as the difference from the best."""
    pooled = sorted((r for r in fits if r["segment"] is None), key=lambda r: r["value"])
    if not pooled:
        return None
    best = pooled[0]
    bars = [Value(r["subject"], r["value"] - best["value"],
                "best" if r["value"] == best["value"] else f"+{r['value'] - best['value']:,.0f}",
                r["value"] == best["value"]) for r in pooled]  # fmt: skip
    rows = [[segment_name(r["segment"]), r["subject"], fixed(r["value"], 1),
             MEANING.get(r["subject"], "")] for r in fits]  # fmt: skip
    return Figure(
        BarsChart("BIC, difference from the best model", bars, max_width=560),
        "BIC on the co-clicks, as the difference from the best model. Lower is better; a "
        f"difference of 10 is strong evidence. {best['subject']}: "
        f"{MEANING.get(best['subject'], '')}.",
        Table("Browsing models", ["traffic", "model", "BIC", "meaning"], rows),
    )  # fmt: skip
