"""How far the pair weights can be trusted."""

from __future__ import annotations

from ulr.report.charts import bars_chart
from ulr.report.facts import NIGHT, Facts, Missing, Row, by_method, part
from ulr.report.format import count, share, significant
from ulr.report.html import Cell, Html, figure, join, paragraph, table
from ulr.report.metrics import best_method
from ulr.report.svg import twice

SIZE, CLIPPED, LARGEST, WEIGHT = (
    "effective_sample_size", "share_clipped", "largest_weight", "weight",
)  # fmt: skip
Weights = dict[str, dict[int | None, dict[str, float]]]  # method, position (None: all), name
Bar = tuple[str, float, str, bool]
DRAWN = 20  # positions in the figure; the table has them all


def render(facts: Facts) -> Html:
    """What the weighted pairs are worth: of a night by position, of a comparison by method."""
    kept = by_method(facts, part(facts, "weights", "weight health"))
    found = {name: _by_position(rows) for name, rows in kept.items()}
    weighted = {name: rows for name, rows in found.items() if rows.get(None, {}).get(WEIGHT)}
    if not weighted:
        raise Missing("These pairs carry no weights from clicks.")
    intro = paragraph(
        "Correcting for examination gives rare clicks from deep positions large weights, and a few "
        "large weights are worth less than many small ones. The effective sample size says how "
        "many equal pairs would be as precise."
    )
    best = None if facts.kind == NIGHT else best_method(facts)
    first = best if best in weighted else next(iter(weighted))
    told = paragraph(_words(facts, first, weighted[first][None]))
    by = "the position of the preferred document" if facts.kind == NIGHT else "method"
    bars = _position_bars(weighted[first]) if facts.kind == NIGHT else _method_bars(weighted)
    deep = max((k for k in weighted[first] if k), default=0) if facts.kind == NIGHT else 0
    return join(intro, told, _figure(bars, by, deep, _table(weighted)))


def _by_position(rows: list[Row]) -> dict[int | None, dict[str, float]]:
    found: dict[int | None, dict[str, float]] = {}
    for row in rows:
        found.setdefault(row["position"], {})[row["name"]] = row["value"]
    return found


def _position_bars(rows: dict[int | None, dict[str, float]]) -> list[Bar]:
    return [_bar(f"position {k}", rows[k]) for k in sorted(k for k in rows if k)[:DRAWN]]


def _method_bars(found: Weights) -> list[Bar]:
    return [_bar(name, rows[None]) for name, rows in found.items()]


def _bar(name: str, values: dict[str, float]) -> Bar:
    return name, values.get(SIZE, 0.0), count(values.get(SIZE)).text, False


def _figure(bars: list[Bar], by: str, deep: int, numbers: Html) -> Html:
    said = "; ".join(f"{name} {shown}" for name, _, shown, _ in bars)
    alternative = f"Effective sample size by {by}: {said}"
    draw = twice(lambda width: bars_chart(width, bars, alternative=alternative))
    caption = f"Effective sample size by {by}."
    if deep > DRAWN:
        caption += f" The table has all {deep} positions."
    return figure(draw, caption, numbers)


def _words(facts: Facts, name: str, whole: dict[str, float]) -> str:
    size = whole.get(SIZE)
    floor = float(facts.settings.get("promote.min_effective_sample_size", 0))
    said = f"The pairs of {name} are worth {count(size).text} equal ones"
    if size is not None and floor:
        side = "above" if size >= floor else "below"
        said += f", {side} the {count(floor).text} that promotion asks for"
    clipped = whole.get(CLIPPED, 0.0)
    said += f"; the largest weight is {significant(whole.get(LARGEST)).text}"
    cut = f"{share(clipped).text} of the weight" if clipped else "nothing"
    said += f", and {cut} was clipped."
    if size is not None and size < floor:
        said += " What to do: a longer window, or a cap (`pairs.weight_cap`, "
        said += "`pairs.propensity_floor`) that trades a little bias for less variance."
    return said


def _table(found: Weights) -> Html:
    rows: list[list[Cell]] = [
        [name, "all" if k is None else str(k), count(v.get(SIZE)), share(v.get(CLIPPED)),
         significant(v.get(LARGEST)), significant(v.get(WEIGHT), 4)]
        for name, positions in found.items()
        for k, v in sorted(positions.items(), key=lambda p: (p[0] is not None, p[0] or 0))
    ]  # fmt: skip
    headings = ["method", "position", "effective sample size", "clipped", "largest weight",
                "total weight"]  # fmt: skip
    return table(headings, rows, "Weight health")
