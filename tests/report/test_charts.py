"""The charts, and the SVG file of `ulr propensities --figure`."""

from __future__ import annotations

from itertools import pairwise
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.report_samples import HOSTILE, POSITIONS, curve, truth
from ulr.report.charts.files import svg_file
from ulr.report.charts.lines import Line, LinesChart
from ulr.report.charts.propensities import propensities_svg
from ulr.report.charts.scales import Scale, padded_range, tick_label
from ulr.report.charts.svg import spread

SVG = "{http://www.w3.org/2000/svg}"


def elements(text: str, tag: str, css_class: str) -> list[ElementTree.Element]:
    root = ElementTree.fromstring(text)
    return [e for e in root.iter(f"{SVG}{tag}") if e.get("class") == css_class]


def test_the_figure_has_a_curve_and_a_name_per_segment_and_the_truth_as_crosses():
    text = propensities_svg(curve(), truth())
    names = {"strong": "all traffic", "segment-1": "desktop", "segment-2": "mobile"}
    for kind, name in names.items():
        assert len(elements(text, "path", f"curve {kind}")) == 1
        assert [e.text for e in elements(text, "text", f"name {kind}")] == [name]
    assert len(elements(text, "path", "mark strong")) == POSITIONS
    assert len(elements(text, "circle", "mark segment-2")) == POSITIONS - 1  # one has no estimate
    assert not elements(propensities_svg(curve()), "path", "mark strong")


def test_the_figure_needs_no_css_variables_and_is_the_same_every_time():
    text = propensities_svg(curve(), truth())
    assert "var(" not in text
    assert text == propensities_svg(curve(), truth())


def test_markup_in_a_segments_name_stays_text():
    rows = [row | {"segment": row["segment"] and HOSTILE} for row in curve()]
    text = propensities_svg(rows)
    assert "\u202e" not in text
    root = ElementTree.fromstring(text)
    assert not [e for e in root.iter() if e.tag.endswith(("script", "img"))]


def test_a_line_is_interrupted_where_a_value_is_missing():
    line = Line("x", [1, 2, 3, 4, 5, 6], [1.0, 2.0, None, 4.0, 5.0, None])
    chart = LinesChart("A chart", [line], "position", "value").draw(760)
    assert chart.count('class="curve strong"') == 2
    assert chart.count('class="mark strong"') == 4
    assert "x 1: 1, 2: 2, 4: 4, 5: 5" in chart


@pytest.mark.parametrize(
    ("low", "high", "log", "ticks"),
    [
        (0.0, 1.0, False, [0, 0.2, 0.4, 0.6, 0.8, 1]),
        (-4.1, 5.9, False, [-4, -2, 0, 2, 4]),
        (0.09, 1.1, True, [0.1, 0.2, 0.5, 1]),
        (1e-4, 1.0, True, [1e-4, 1e-3, 1e-2, 0.1, 1]),
    ],
)
def test_ticks_are_round_values(low, high, log, ticks):
    assert Scale(low, high, 0, 100, log).ticks() == pytest.approx(ticks)


def test_tick_labels_are_short():
    labels = [tick_label(value) for value in (-0.2, 0, 1500, 200_000, 3_000_000)]
    assert labels == ["−0.2", "0", "1.5k", "200k", "3M"]


def test_a_range_of_equal_values_is_not_empty():
    low, high = padded_range([3.0, 3.0])
    assert low < 3 < high


@given(st.lists(st.floats(0, 300), max_size=12))
def test_labels_keep_their_order_and_do_not_overlap(places):
    moved = spread(places, 15, 0, 300)
    order = sorted(range(len(places)), key=places.__getitem__)
    assert all(moved[b] - moved[a] > 15 - 1e-6 for a, b in pairwise(order))


def test_a_chart_over_named_values_has_a_tick_for_each():
    line = Line("x", [0.0, 0.5, 2.0], [1.0, 2.0, 3.0])
    chart = LinesChart("A chart", [line], "eta", "value", x_labels={0.0: "none", 2.0: "severe"})
    ticks = elements(svg_file("A chart", chart, 300), "text", "tick")
    assert [e.text for e in ticks if e.get("text-anchor") == "middle"] == ["none", "severe"]
    assert "x 0.0: 1, 0.5: 2, 2.0: 3" in chart.draw(760)
