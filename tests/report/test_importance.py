"""The importance of features: the chart, its file and the section."""

from __future__ import annotations

from dataclasses import replace
from xml.etree import ElementTree

import pytest

from tests.support.outline import Outline, section_text
from tests.support.report_samples import HOSTILE, comparison, importance, night, training
from ulr.report.charts.importance import DRAWN, importance_chart, importance_svg

SVG = "{http://www.w3.org/2000/svg}"


def bars(text, kind):
    root = ElementTree.fromstring(str(text))
    return [
        float(e.get("width")) for e in root.iter(f"{SVG}rect") if e.get("class") == f"bar {kind}"
    ]


def test_bars_are_relative_to_the_largest_value_of_their_quantity():
    text = importance_svg(importance(3), "joint")
    contribution = bars(text, "strong")
    assert contribution[1] / contribution[0] == pytest.approx(1 / 2, rel=0.01)
    assert contribution[2] / contribution[0] == pytest.approx(1 / 3, rel=0.01)
    assert len(bars(text, "plain")) == 2 * 3  # gain and splits
    assert "var(" not in text


@pytest.mark.parametrize("width", [760, 358])
def test_only_the_first_features_are_drawn_and_long_names_are_cut(width):
    chart = importance_chart(importance(50, name="x" * 90), "joint")
    drawn = ElementTree.fromstring(
        str(chart.draw(width)).replace("<svg", f'<svg xmlns="{SVG[1:-1]}"')
    )
    names = [e.text for e in drawn.iter(f"{SVG}text") if e.get("class") == "name plain"]
    assert len(names) == DRAWN
    assert max(map(len, names)) == 32


def test_the_section_lists_features_with_share_of_gain_and_direction():
    outline = Outline(night())
    rows = outline.find("tr", outline.section("importance"))
    cells = [e["text"] for e in outline.find("td", rows[1])]
    assert cells == ["feature 1", "0.500", "+0.90", "50.0%", "300"]
    text = section_text(night(), "importance")
    assert (
        "mean absolute SHAP value, as LightGBM computes it, over 2,000 training documents" in text
    )


def test_a_linear_model_says_that_it_has_no_shap_values():
    row = {"feature": "a", "weight": -2.0, "contribution": 1.0, "direction": -1.0}
    linear = {"rows": 50, "linear": True, "number": 1, "gain": 0.0, "features": [row]}
    facts = replace(night(), trainings={"joint": training(importance=linear)})
    text = section_text(facts, "importance")
    assert (
        "The model joint is linear: it has no trees, and so no gain, no splits and no SHAP" in text
    )
    outline = Outline(facts)
    (shown,) = outline.find("tr", outline.section("importance"))[1:]
    assert [e["text"] for e in outline.find("td", shown)] == ["a", "1.00", "−2.000000"]


def test_a_training_of_an_earlier_version_has_a_reason():
    facts = replace(comparison(), trainings={"joint": training(importance=None)})
    assert "was not computed with this training" in section_text(facts, "importance")


def test_features_that_are_left_out_are_counted_and_names_stay_text():
    many = importance(100, name=HOSTILE) | {"number": 700}
    facts = replace(night(), trainings={"joint": training(importance=many)})
    assert "600 more features are in importance.json" in section_text(facts, "importance")
    assert len(Outline(facts).find("script")) == 1
