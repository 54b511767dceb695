"""How training went: validation by round, and the biases that were learned beside the model."""

from __future__ import annotations

from ulr.report.charts import Curve, curves_chart
from ulr.report.facts import Facts, Row, by_method, part
from ulr.report.format import count, fixed, significant
from ulr.report.html import Cell, Html, figure, join, left_out, node, paragraph, table
from ulr.report.metrics import metric_name
from ulr.report.svg import twice

POINTS, ROWS = 240, 60  # of a curve, and of the table behind it; more cannot be told apart
DRAWN = 12  # methods


def render(facts: Facts) -> Html:
    """A curve per method; each has its own scale, for each method's loss has its own weights."""
    found = by_method(facts, part(facts, "trainings", "training"))
    several = len(found) > 1
    parts = [_method(name, record, several) for name, record in list(found.items())[:DRAWN]]
    parts.append(left_out(len(found) - DRAWN, "trainings are", "the folders of `models`"))
    learned = [name for name, record in found.items() if record.get("t_plus")]
    if not learned:
        parts.append(
            paragraph(
                "t+ and t- are learned only by the method unbiased-lambdamart.", class_="soft"
            )
        )
    shapes = "Each method has a loss with weights of its own: compare the shapes, not the heights."
    return join(paragraph(shapes) if several else None, *parts)


def _method(name: str, record: Row, named: bool) -> Html:
    heading = node("h3", name) if named else None
    told = [f"{count(record.get('trees')).text} trees"]
    if record.get("rows"):
        rows, pairs, queries = (count(record[n]).text for n in ("rows", "pairs", "queries"))
        told.append(f"on {rows} documents and {pairs} pairs of {queries} queries")
    parts = [heading, paragraph(("" if named else f"{name}: ") + f"{' '.join(told)}.")]
    parts += [paragraph(f"Attempt {n} failed and was taken up again from its checkpoint: {why}")
              for n, why in enumerate(record.get("failures") or [], 1)]  # fmt: skip
    for metric, history in (record.get("validation") or {}).items():
        parts.append(_history(name, metric, history, record.get("trees")))
    if not record.get("validation"):
        why = ("No queries were kept aside, so there is no learning curve "
               "(`train.validation_fraction`, `train.early_stopping_round`).")  # fmt: skip
        parts.append(paragraph(why, class_="soft"))
    if record.get("t_plus"):
        parts.append(_biases(name, record))
    return join(*parts)


def _history(name: str, metric: str, history: list[float], best: int | None) -> Html:
    kept, listed = (_thinned(len(history), most) for most in (POINTS, ROWS))
    rounds = [n + 1 for n in kept]
    curve = Curve("", rounds, [history[n] for n in kept], "strong", marks=False)
    mark = (best, f"kept: {best}") if best else None
    ends = [significant(history[n], 4).text for n in (0, -1)]
    alternative = (f"{metric} of {name} by training round, from {ends[0]} to {ends[1]} over "
                   f"{len(history)} rounds; {best} trees kept")  # fmt: skip
    draw = twice(lambda width: curves_chart(
        width, [curve], x_name="round", y_name=f"{metric_name(metric)} on queries kept aside",
        alternative=alternative, height=240, mark=mark))  # fmt: skip
    rows: list[list[Cell]] = [[count(n + 1), significant(history[n], 6)] for n in listed]
    caption = "Validation after every round; trees after the best round are not in the model."
    if len(listed) < len(history):
        caption += f" The table shows {len(listed)} of {len(history)} rounds."
    return figure(draw, caption, table(["round", metric], rows, f"Validation of {name}"))


def _thinned(size: int, most: int) -> list[int]:
    """At most so many indices, evenly, both ends among them."""
    if size <= most:
        return list(range(size))
    return sorted({round(n * (size - 1) / (most - 1)) for n in range(most)})


def _biases(name: str, record: Row) -> Html:
    plus, minus = record["t_plus"], record["t_minus"]
    at = list(range(1, len(plus) + 1))
    curves = [Curve("t+", at, plus, "strong"), Curve("t−", at, minus, "plain")]
    alternative = "Learned biases by position; t+: " + ", ".join(fixed(v, 3).text for v in plus)
    alternative += "; t-: " + ", ".join(fixed(v, 3).text for v in minus)
    draw = twice(lambda width: curves_chart(width, curves, x_name="position", height=260,
                                            y_name="bias, relative to position 1",
                                            alternative=alternative))  # fmt: skip
    rows: list[list[Cell]] = [
        [count(k), fixed(p), fixed(m)] for k, p, m in zip(at, plus, minus, strict=True)
    ]
    caption = (
        "t+ is how much a click at a position is worth as evidence, t− how much a missing click is."
    )
    return figure(draw, caption, table(["position", "t+", "t−"], rows, f"Learned biases of {name}"))
