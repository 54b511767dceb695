"""Where the documents that were shown at each position end up after re-ranking."""

from __future__ import annotations

from ulr.report.charts import Curve, curves_chart
from ulr.report.facts import NIGHT, Facts, Missing, Row, part
from ulr.report.format import count, fixed, known
from ulr.report.html import Cell, Html, figure, join, paragraph, table
from ulr.report.metrics import CHAMPION, LOGGING, best_method, subject_name, subjects
from ulr.report.svg import twice

METRIC = "position_after"
DRAWN = 4  # models in the figure


def render(facts: Facts) -> Html:
    """A model that only copies the ranking that was shown would lie on the dotted line."""
    part(facts, "metrics", "evaluation")
    found: dict[str, dict[int, Row]] = {}
    for row in facts.metrics:
        if row["name"] == METRIC and row["against"] is None and known(row["value"]):
            found.setdefault(row["subject"], {})[row["position"]] = row
    best = None if facts.kind == NIGHT else best_method(facts)
    ordered = dict.fromkeys(name for name in (best, *subjects(facts)) if name != LOGGING)
    models = [name for name in ordered if name in found]
    if not models:
        raise Missing("No average positions are stored: they come from `ulr evaluate` on clicks.")
    positions = sorted({k for name in models for k in found[name]})
    curves = [Curve("as shown", positions, [float(k) for k in positions], "faint", marks=False)]
    for n, name in enumerate(models[:DRAWN]):
        own = found[name]
        at = [k for k in positions if k in own]
        first = n == 0
        band = [(own[k]["lower"], own[k]["upper"]) for k in at] if first else []
        curves.append(Curve(subject_name(name), at, [own[k]["value"] for k in at],
                            "strong" if first else "plain", band))  # fmt: skip
    said = "; ".join(
        f"{subject_name(n)} " + ", ".join(f"{k}: {found[n][k]['value']:.2f}" for k in found[n])
        for n in models[:2]
    )
    alternative = f"Average position after re-ranking by position as shown. {said}"
    draw = twice(lambda width: curves_chart(
        width, curves, x_name="position as shown", y_name="average position after re-ranking",
        alternative=alternative))  # fmt: skip
    intro = paragraph(
        "Documents shown at the top were clicked because they were at the top. A model that has "
        "learned this places them, on average, further down than where it found them, and lifts "
        "what was shown below."
    )
    caption = "Average over pages; the dotted line is the ranking as it was shown."
    if len(models) > DRAWN:
        caption += f" {DRAWN} of {len(models)} models are drawn; the table has all."
    if CHAMPION in models:
        caption += " Between model and champion, the flatter curve moves more."
    return join(intro, figure(draw, caption, _table(found, models, positions)))


def _table(found: dict[str, dict[int, Row]], models: list[str], positions: list[int]) -> Html:
    rows: list[list[Cell]] = []
    for k in positions:
        cells = [fixed(found[name].get(k, {}).get("value"), 2) for name in models]
        rows.append([count(k), *cells])
    headings = ["position as shown", *(subject_name(n) for n in models)]
    return table(headings, rows, "Average position after re-ranking")
