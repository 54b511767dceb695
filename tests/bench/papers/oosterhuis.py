"""Oosterhuis 2022, figure 1: which click models are affine in relevance."""

from __future__ import annotations

import numpy as np
from scipy.stats import norm

from tests.bench.papers.claims import Claim, Difference
from tests.bench.papers.page import HEIGHT, Figure, Paper
from tests.bench.papers.worlds import Scale
from ulr.report.charts.lines import Line, LinesChart
from ulr.simulate.browsing import Cascade
from ulr.simulate.clicks import ClickModel
from ulr.simulate.randomness import stream

OTHERS = 0.01  # sum of the other documents' relevance in the Plackett-Luce scenario
NOT_CLICKED_ABOVE = 0.7  # P(no earlier click) in the cascade scenario
PAGES = 40_000
RELEVANCE = np.linspace(0.0, 1.0, 11)


def run(scale: Scale, processes: int) -> Paper:
    """Draw the clicks of both scenarios on a grid of relevance."""
    curves = {"Plackett-Luce": _plackett_luce(), "cascade": _cascade()}
    exact = {
        "Plackett-Luce": RELEVANCE / (RELEVANCE + OTHERS),
        "cascade": NOT_CLICKED_ABOVE * RELEVANCE,
    }
    lines = []
    for kind, name in (("strong", "Plackett-Luce"), ("segment-1", "cascade")):
        lines.append(Line(name, RELEVANCE.tolist(), exact[name].tolist(), kind, ""))
        lines.append(Line("", RELEVANCE.tolist(), curves[name].tolist(), kind, "crosses"))
    labels = {x: f"{x:g}" for x in (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)}
    title = "Figure 1: click probability by relevance; lines: the paper's formulas, crosses: drawn"
    chart = LinesChart(title, lines, "relevance", "P(click)", height=HEIGHT, x_labels=labels)
    claims = [
        Claim("figure 1: Plackett-Luce clicks are not affine in relevance (curvature below 0)",
              _curvature(curves["Plackett-Luce"])),
        Claim("figure 1: cascade clicks are affine with slope 0.7 (slope above 0.69)",
              _slope_above(curves["cascade"], 0.69)),
        Claim("figure 1: cascade clicks are affine with slope 0.7 (slope below 0.71)",
              _slope_above(-curves["cascade"], -0.71)),
    ]  # fmt: skip
    setting = (
        "Oosterhuis 2022. A document of changing relevance beside others whose relevance adds up "
        "to 0.01 (one choice per page, Plackett-Luce), and below others of which one is clicked "
        "with probability 0.3 (cascade). The cascade is that of the simulator. The simulator's "
        "`single_choice` is another model: it first draws which documents are attractive, and is "
        "affine in the relevance of each document for given neighbours."
    )
    return Paper("oosterhuis", "Oosterhuis 2022, figure 1", setting,
                 [Figure("oosterhuis-figure-1.svg", chart)], claims)  # fmt: skip


def _plackett_luce() -> np.ndarray:
    """Draw one choice per page with probability proportional to relevance, by Gumbel-max."""
    rng = stream(1, "plackett-luce")
    with np.errstate(divide="ignore"):
        utility = np.log(np.stack([RELEVANCE, np.full(RELEVANCE.size, OTHERS)], axis=1))
    noise = rng.gumbel(size=(PAGES, *utility.shape))
    return np.mean(np.argmax(utility + noise, axis=2) == 0, axis=0)


def _cascade() -> np.ndarray:
    """Draw pages of two documents, of which the first ends the page if it is clicked."""
    model = ClickModel(Cascade(1.0, 1.0), np.ones(2), np.zeros(2))
    rng = stream(1, "cascade")
    first = np.full(PAGES, 1 - NOT_CLICKED_ABOVE)
    pages = [np.stack([first, np.full(PAGES, r)], axis=1) for r in RELEVANCE]
    return np.array([model.draw(rng, page)[:, 1].mean() for page in pages])


def _curvature(rate: np.ndarray) -> Difference:
    """Return minus the second difference at 0, 0.5 and 1, with its standard error."""
    at = rate[[0, 5, 10]]
    mean = 2 * at[1] - at[0] - at[2]
    variance = at * (1 - at) / PAGES
    return _normal(float(mean), float(np.sqrt(variance @ np.array([1, 4, 1]))))


def _slope_above(rate: np.ndarray, bound: float) -> Difference:
    """Return the slope from relevance 0 to 1, less a bound, with its standard error."""
    size = np.abs(rate[[0, -1]])
    error = float(np.sqrt((size * (1 - size)).sum() / PAGES))
    return _normal(float(rate[-1] - rate[0] - bound), error)


def _normal(mean: float, error: float) -> Difference:
    return Difference(mean, error, float(2 * norm.sf(abs(mean) / error)))
