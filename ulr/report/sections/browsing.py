"""psi: how likely two positions are both examined; the browsing models; measured or filled."""

from __future__ import annotations

from collections import Counter

from ulr.report.charts import bars_chart, pairs_map
from ulr.report.facts import Facts, Row, part, segment_name, segments_of
from ulr.report.format import count, fixed, interval, known
from ulr.report.html import Cell, Html, figure, join, left_out, node, paragraph, table
from ulr.report.svg import twice

DRAWN, DEEP = 3, 20  # maps, all traffic among them; positions in a map and in its table
MEANING = {
    "independent": "positions are examined independently of each other",
    "continuous": "users read down from the top and stop somewhere",
    "row_skipping": "users read row by row, and may skip whole rows",
}


def render(facts: Facts) -> Html:
    """A map of all pairs for every segment, and how the models of browsing fared."""
    rows = part(facts, "joint", "table of pairs")
    parts = [paragraph(_intro(facts, rows))]
    segments = segments_of(rows)
    for segment in segments[:DRAWN]:
        own = [r for r in rows if r["segment"] == segment and r["l"] <= DEEP]
        if own:
            heading = node("h3", f"Segment {segment}") if segment is not None else None
            parts += [heading, _map(facts, own, segment)]
    where = "the table `joint_propensities`"
    deeper = sum(row["l"] > DEEP for row in rows)
    parts += [left_out(deeper, f"pairs are below position {DEEP},", where),
              left_out(len(segments) - DRAWN, "segments are", where)]  # fmt: skip
    return join(*parts, node("h3", "Browsing models compared"), _models(facts, rows))


def _intro(facts: Facts, rows: list[Row]) -> str:
    counted = Counter(r["source"] for r in rows)
    models = sorted({r["browsing"] for r in rows})
    told = [f"{n:,} {source}" for source, n in counted.items()]
    said = "psi(k, l) is the chance that positions k and l are both looked at. "
    said += f"Of {len(rows):,} pairs: {', '.join(told)}."
    if counted["imputed"]:
        few = "" if facts.settings.get("propensities.joint") == "none" else (
            "had too few co-clicks to be measured and ")  # fmt: skip
        said += (
            f" Filled pairs {few}take their value from the browsing model {_chosen(facts, rows)}"
        )
        said += f" ({', '.join(models)})."
    return said


def _is_named(facts: Facts, rows: list[Row]) -> bool:
    """Whether the settings chose the model; one that could not be fitted was replaced."""
    return facts.settings.get("propensities.browsing_model") == rows[0]["browsing"]


def _chosen(facts: Facts, rows: list[Row]) -> str:
    """By whom the model was chosen."""
    if _is_named(facts, rows):
        return "that `propensities.browsing_model` names"
    return "that the co-clicks prefer" if _fits(facts) else "that is the default"


def true_psi(facts: Facts, segment: str | None) -> dict[tuple[int, int], float]:
    """The simulator's, on the scale of theta(1) = 1."""
    own = {(r["k"], r["l"]): r["psi"] for r in facts.truth if r["segment"] == segment}
    first = own.get((1, 1))
    return {at: psi / first for at, psi in own.items()} if first else {}


def _map(facts: Facts, own: list[Row], segment: str | None) -> Html:
    name = segment_name(segment)
    size = max(r["l"] for r in own)
    cells = {(r["k"], r["l"]): (r["psi"], r["source"]) for r in own}
    theta = {r["position"]: r["theta"] for r in facts.curve if r["segment"] == segment}
    cells |= {(k, k): (value, "theta") for k, value in theta.items() if k <= size}
    truth = true_psi(facts, segment)
    cells |= {(v, k): (psi, "truth") for (k, v), psi in truth.items() if k < v <= size}
    sources = Counter(r["source"] for r in own)
    shown = [r for r in own if known(r["psi"])]
    alternative = f"Joint examination by pair of positions, {name}: " + (
        f"from {min(r['psi'] for r in shown):.3f} to {max(r['psi'] for r in shown):.3f}; "
        if shown else ""
    ) + ", ".join(f"{n} {s}" for s, n in sources.items())  # fmt: skip
    draw = twice(lambda width: pairs_map(min(width, 620), size, cells, alternative=alternative))
    caption = "Row k, column l. Above the diagonal psi as estimated, on it theta"
    caption += ", below it the simulator's truth (grey)." if truth else "."
    caption += " Outlined cells were measured" if sources["estimated"] else " No pair was measured"
    others = "the others" if sources["estimated"] else "all"
    caption += f"; {others} are filled from the model." if sources["imputed"] else "."
    caption += " × was refused." if sources["insufficient"] else ""
    return figure(draw, caption, _table(own, truth, name))


def _table(own: list[Row], truth: dict[tuple[int, int], float], name: str) -> Html:
    headings = ["k", "l", "psi", "95% interval", "co-clicks behind it", "source",
                *(["truth"] if truth else []), "note"]  # fmt: skip
    rows: list[list[Cell]] = [
        [count(r["k"]), count(r["l"]), fixed(r["psi"]),
         interval(r["lower"], r["upper"], of=r["psi"]), count(r["support"]), r["source"],
         *([fixed(truth.get((r["k"], r["l"])))] if truth else []), r["note"]]
        for r in own
    ]  # fmt: skip
    return table(headings, rows, f"psi, {name}")


def _fits(facts: Facts) -> list[Row]:
    """How the models of browsing did on the co-clicks."""
    return [r for r in facts.diagnostics if r["check"] == "browsing" and known(r["value"])]


def _models(facts: Facts, joint: list[Row]) -> Html:
    """BIC of every model on the co-clicks of all traffic, as the distance from the best."""
    fits = _fits(facts)
    whole = sorted((r for r in fits if r["segment"] is None), key=lambda r: r["value"])
    named = _is_named(facts, joint)
    if named or not whole:
        chosen = joint[0]["browsing"]
        why = ("`propensities.browsing_model` names one" if named
               else "the log has no co-clicks in swap experiments to do it by")  # fmt: skip
        return paragraph(
            f"No models were compared: {why}. {chosen} was used: {MEANING.get(chosen, '')}."
        )
    best = whole[0]["value"]
    behind = {r["subject"]: r["value"] - best for r in whole}
    bars = [(name, d, f"+{d:,.0f}" if d else "best", d == 0) for name, d in behind.items()]
    alternative = "BIC behind the best browsing model: " + "; ".join(f"{b[0]} {b[2]}" for b in bars)
    rows: list[list[Cell]] = [
        [segment_name(r["segment"]), r["subject"], fixed(r["value"], 1),
         MEANING.get(r["subject"], "")]
        for r in fits
    ]  # fmt: skip
    first = whole[0]["subject"]
    caption = ("BIC on the co-clicks, behind the best; shorter is better, and 10 is already strong "
               f"evidence. {first}: {MEANING.get(first, '')}.")  # fmt: skip
    draw = twice(lambda width: bars_chart(min(width, 560), bars, alternative=alternative))
    return figure(
        draw, caption, table(["traffic", "model", "BIC", "meaning"], rows, "Browsing models")
    )
