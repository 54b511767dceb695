"""theta: how likely each position is to be examined, with its band and, if simulated, the truth."""

from __future__ import annotations

from ulr.report.charts import Curve, curves_chart
from ulr.report.facts import Facts, Row, part, segment_name, segments_of
from ulr.report.format import count, days, fixed, interval, known
from ulr.report.html import Cell, Html, figure, join, left_out, node, paragraph, table
from ulr.report.svg import twice

DRAWN = 6  # figures, all traffic among them
GIVEN = "given"


def render(facts: Facts) -> Html:
    """A curve for all traffic, and one for every segment with all traffic behind it."""
    rows = part(facts, "curve", "propensity curve")
    figures, segments = [], segments_of(rows)
    for segment in segments[:DRAWN]:
        heading = node("h3", f"Segment {segment}") if segment is not None else None
        figures += [heading, _figure(facts, rows, segment)]
    more = left_out(len(segments) - DRAWN, "segments are", "the table `propensities`")
    return join(paragraph(_intro(facts, rows)), *figures, more)


def _intro(facts: Facts, rows: list[Row]) -> str:
    said = "How likely is a document at each position to be looked at, compared with position 1? "
    if any(name.startswith("propensities.") for own in facts.variants.values() for name in own):
        said += f"This is what {facts.methods[0]} was trained with; some variants have their own. "
    if rows[0]["source"] == GIVEN:
        return said + "The values were given in the settings (`propensities.given`), not estimated."
    refused = sum(r["source"] == "insufficient" for r in rows)
    said += f"Estimated by `{rows[0]['estimator']}` from {days(len(facts.window))} of clicks; "
    if refused:
        return said + f"{refused} of {len(rows)} values had to be refused, the table says why."
    return said + "every position has a value."


def true_theta(facts: Facts, segment: str | None) -> dict[int, float]:
    """The simulator's, relative to position 1; all traffic only where there are no segments."""
    own = {r["k"]: r["psi"] for r in facts.truth if r["segment"] == segment and r["k"] == r["l"]}
    return {k: value / own[1] for k, value in own.items()} if own.get(1) else {}


def _figure(facts: Facts, rows: list[Row], segment: str | None) -> Html:
    own = [r for r in rows if r["segment"] == segment]
    at = [r["position"] for r in own]
    name = segment_name(segment)
    curves = []
    if segment is not None:
        pooled = [r for r in rows if r["segment"] is None]
        curves.append(Curve("all traffic", [r["position"] for r in pooled],
                            [r["theta"] for r in pooled], "plain", marks=False))  # fmt: skip
    curves.append(Curve("estimate" if segment is None else segment, at, [r["theta"] for r in own],
                        "strong", [(r["lower"], r["upper"]) for r in own]))  # fmt: skip
    truth = {k: v for k, v in true_theta(facts, segment).items() if k in at}
    if truth:
        curves.append(Curve("truth", list(truth), list(truth.values()), "truth"))
    said = ", ".join(f"{r['position']}: {fixed(r['theta'], 3).text}" for r in own)
    alternative = f"Examination by position, {name}, relative to position 1: {said}"
    draw = twice(lambda width: curves_chart(
        width, curves, x_name="position", y_name="theta, relative to position 1 (log scale)",
        alternative=alternative, log=True))  # fmt: skip
    given = own[0]["source"] == GIVEN
    caption = (
        f"theta of {name}" + (" as given." if given else " with its 95% band.") + _borrowed(own)
    )
    if truth:
        caption += " Crosses are the simulator's truth" + ("." if given else _covered(own, truth))
    return figure(draw, caption, _table(own, truth, name))


def _borrowed(own: list[Row]) -> str:
    """Which points are not this segment's own."""
    pooled = [str(r["position"]) for r in own if r["source"] == "pooled"]
    if not pooled:
        return ""
    return f" Too few clicks of its own, so all traffic's value: position {', '.join(pooled)}."


def _covered(own: list[Row], truth: dict[int, float]) -> str:
    inside = [r["lower"] <= truth[r["position"]] <= r["upper"] for r in own
              if r["position"] in truth and r["position"] > 1
              and known(r["lower"]) and known(r["upper"])]  # fmt: skip
    return (f": {sum(inside)} of {len(inside)} lie inside the band (position 1 is 1 by "
            "definition).")  # fmt: skip


def _table(own: list[Row], truth: dict[int, float], name: str) -> Html:
    headings = ["position", "theta", "95% interval", "standard error", "clicks behind it", "source",
                *(["truth"] if truth else []), "note"]  # fmt: skip
    rows: list[list[Cell]] = [
        [count(r["position"]), fixed(r["theta"]), interval(r["lower"], r["upper"], of=r["theta"]),
         fixed(r["standard_error"]), count(r["support"]), r["source"],
         *([fixed(truth.get(r["position"]))] if truth else []), r["note"]]
        for r in own
    ]  # fmt: skip
    return table(headings, rows, f"theta, {name}")
