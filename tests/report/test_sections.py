"""What the sections say: about the right method, from the right numbers, in words that hold."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.outline import Outline, kept, section
from tests.support.report_samples import (
    DECIDES,
    comparison,
    curve,
    day,
    estimate,
    joint,
    metrics,
    night,
    training,
    weights,
)
from ulr.config.load import default_settings
from ulr.report.facts import Facts
from ulr.report.format import interval
from ulr.report.metrics import metric_name, metrics_there
from ulr.report.page import page
from ulr.report.store import differences


def test_the_verdict_is_one_sentence_with_its_reasons():
    outline = Outline(page(night()))
    assert (
        outline.find("h1")[0]["text"]
        == "Version 3, trained by joint, is refused; version 2 stays champion."
    )
    reasons = [
        (e["class"], e["text"]) for e in outline.find("li") if e.get("class") in ("for", "against")
    ]
    assert [kind for kind, _ in reasons] == ["for", "against"]
    assert "bucket 1:5" in reasons[1][1]


def test_a_comparison_names_the_best_and_what_is_too_close():
    facts = comparison()
    assert "The best of 3 methods is joint: NDCG@1 0.8075" in page(facts)  # 0.85 less one twentieth
    # from naive, three twentieths below, joint is two thirds of the way to labels
    assert "67% of the way from naive clicks to golden labels" in page(facts)
    turned = [m | {"value": 0.1} if m["subject"] == "labels" else m for m in facts.metrics]
    assert "of the way" not in page(replace(facts, metrics=turned))  # labels are no upper end
    lead = [
        m | {"p_value": 0.4} if m["against"] == "unbiased-lambdamart" else m for m in facts.metrics
    ]
    assert "too close to call" in page(replace(facts, metrics=lead))


def test_a_night_is_about_its_model_and_not_about_the_first_name_of_the_alphabet():
    half = [row | {"value": row["value"] / 2} for row in weights()]
    facts = kept(replace(
        night(), methods=["robust", "naive"], weights={"robust": weights(), "naive": half},
        trainings={"robust": training(queries=1500), "naive": training(queries=7)},
    ))  # fmt: skip
    outline = Outline(page(facts))
    assert "The pairs of robust are worth 5,000" in section(outline, "weights")["text"]
    assert [e["text"] for e in outline.find("h3", section(outline, "learning"))] == [
        "robust", "naive"]  # fmt: skip
    assert "1,500" in [e["text"] for e in outline.find("dd", section(outline, "data"))]


def test_a_comparison_draws_the_best_method_first_and_says_whom_it_leaves_out():
    names = ("naive", "robust", "prs", "unbiased-lambdamart", "labels")
    rows = [*metrics("joint", *names), estimate("labels", "ndcg_at_1", 0.99)]
    facts = kept(replace(comparison(), methods=[*names[:4], "joint", "labels"], metrics=rows,
                         weights={name: weights() for name in (*names, "joint")}))  # fmt: skip
    outline = Outline(page(facts))
    assert "The pairs of joint" in section(outline, "weights")["text"]
    drawn = outline.find("svg", section(outline, "positions"))[0]
    (strong,) = (e["text"] for e in outline.find("text", drawn) if e.get("class") == "name strong")
    assert strong == "joint"
    assert "4 of 6 models are drawn" in section(outline, "positions")["text"]


def unknown(facts: Facts, *subjects: str) -> Facts:
    """Nobody clicked in the queries that judge these rankings."""
    nothing = dict.fromkeys(("value", "standard_error", "lower", "upper", "p_value"))
    rows = [m | nothing if m["subject"] in subjects else m for m in facts.metrics]
    return replace(facts, metrics=rows)


def test_a_number_that_is_not_known_costs_no_more_than_itself():
    outline = Outline(page(unknown(comparison(), "naive")))
    assert not [e for e in outline.all if e.get("class") == "missing"]
    assert "is not known of them: naive." in section(outline, "contest")["text"]
    assert "Nothing could be compared" in page(unknown(comparison(), *comparison().methods))
    (told,) = (e["text"] for e in Outline(page(unknown(night(), "champion"))).find("p")
               if e.get("class") == "missing")  # fmt: skip
    assert told.startswith("No lead over champion can be told")


@pytest.mark.parametrize(
    ("verdict", "words"),
    [
        (None, "the night did not come as far as the champion"),
        ({"outcome": "champion", "champion": 3}, "it is the champion itself"),
        ({"outcome": "kept", "champion": 2}, "the champion could not rank these pages"),
        ({"outcome": "promoted", "champion": None}, "there was no champion yet"),
    ],
)
def test_a_night_without_a_champion_to_compare_with_says_why(verdict, words):
    told = verdict and night().verdict | verdict
    facts = replace(night(), verdict=told, metrics=metrics("joint", "logging"))
    assert f"the ranking that was shown, for {words}, judged by" in page(facts)


def test_alarms_come_first_and_say_what_to_do():
    outline = Outline(page(night()))
    items = list(outline.find("li", section(outline, "diagnostics")))
    assert [e["class"] for e in items] == ["warning", "warning", "ok", "ok"]
    assert all("What to do" in e["text"] for e in items[:2])
    assert "pairs.method=affine" in items[1]["text"]
    assert all("Nothing to do" in e["text"] for e in items[2:])


def test_the_map_tells_measured_from_filled_and_shows_the_truth_below_the_diagonal():
    outline = Outline(page(night()))
    drawing = outline.find("svg", section(outline, "browsing"))[0]
    kinds = [e["class"].split()[1] for e in outline.find("rect", drawing) if "cell" in e["class"]]
    pairs = [k * v for k in range(1, 11) for v in range(k + 1, 11)]
    assert kinds.count("estimated") == sum(p < 13 for p in pairs)
    assert kinds.count("imputed") == sum(p >= 13 for p in pairs)
    assert kinds.count("truth") == len(pairs)
    assert kinds.count("theta") == 10


def told(facts: Facts, key: str) -> str:
    """All that a section says, without the numbers behind its figures."""
    outline = Outline(page(facts))
    hidden = [e["text"] for e in outline.find("details", section(outline, key))]
    text = section(outline, key)["text"]
    for part in hidden:
        text = text.replace(part, "")
    return text


def test_a_curve_that_was_given_is_not_called_an_estimate():
    given = [row | {"source": "given", "estimator": "given"} for row in curve()]
    words = told(replace(night(), curve=given), "examination")
    assert "were given in the settings" in words
    assert not [said for said in ("Estimated by", "95% band", "inside the band") if said in words]


def test_a_segment_says_which_of_its_values_are_not_its_own():
    seventh = ("mobile", 7)
    thin = [row | {"source": "pooled"} if (row["segment"], row["position"]) == seventh else row
            for row in curve()]  # fmt: skip
    words = "Too few clicks of its own, so all traffic's value: position 7."
    assert told(replace(night(), curve=thin), "examination").count(words) == 1
    assert words not in told(night(), "examination")


@pytest.mark.parametrize(
    ("setting", "fits", "words"),
    [
        ("auto", True, "that the co-clicks prefer (independent)"),
        ("auto", False, "that is the default (independent)"),
        ("independent", True, "that `propensities.browsing_model` names (independent)"),
    ],
)
def test_the_browsing_model_is_told_with_who_chose_it(setting, fits, words):
    facts = replace(night(), settings=night().settings | {"propensities.browsing_model": setting})
    if not fits:
        facts = replace(facts, diagnostics=[])
    said = told(facts, "browsing")
    assert words.replace("`", "") in said
    assert ("No models were compared" in said) == (
        words != "that the co-clicks prefer (independent)"
    )


def test_the_legend_of_the_map_names_only_what_is_on_it():
    filled = [row | {"source": "imputed"} for row in joint()]
    assert "No pair was measured; all are filled" in told(
        replace(night(), joint=filled), "browsing"
    )
    measured = [row | {"source": "estimated"} for row in joint()]
    assert "filled from" not in told(replace(night(), joint=measured), "browsing")


def test_the_day_that_judges_is_not_one_that_was_learned_from():
    facts = replace(night(), settings=night().settings | {"evaluate.holdout": "time"})
    assert "learned from 2 days, 2026-01-01 to 2026-01-02" in page(facts)
    assert "learned from 3 days, 2026-01-01 to 2026-01-03" in page(night())
    assert "learned from" not in page(replace(night(), trainings={}))


def test_a_figure_that_leaves_something_out_says_so():
    many = replace(night(), days=[day(f"day {n}") for n in range(40)])
    assert "The last 31 of 40 days are drawn" in told(many, "data")
    deep = [{"position": k, "name": name, "value": 9.0} for k in (None, *range(1, 31))
            for name in ("effective_sample_size", "weight")]  # fmt: skip
    assert "The table has all 30 positions" in told(
        replace(night(), weights={"joint": deep}), "weights"
    )


def test_metrics_have_peoples_names_in_one_order_whatever_the_cuts():
    names = ["zeta", "ndcg_at_20", "ndcg_at_3", "ips_precision_at_2", DECIDES]
    facts = replace(night(), metrics=[estimate("joint", name, 0.5) for name in names])
    assert [metric_name(name) for name in metrics_there(facts, "joint")] == [
        "SNIPS DCG", "IPS precision@2", "NDCG@3", "NDCG@20", "zeta"]  # fmt: skip


def test_what_was_refused_has_no_interval_and_what_has_no_bound_says_so():
    rows = Outline(page(night())).find("tr")
    assert [r["text"] for r in rows if r["text"].startswith("10––")]  # mobile's last position
    assert interval(None, 0.5).text == "unbounded"


def test_a_name_of_a_variant_is_explained_and_so_is_whose_examination_it_is():
    variants = {"joint@flat": {"propensities.monotone": "True", "train.num_iterations": "9"}}
    facts = replace(comparison(), methods=["joint", "joint@flat"], variants=variants)
    words = told(facts, "setup")
    assert "joint@flatpropensities.monotoneTrue" in words
    assert "joint@flattrain.num_iterations9" in words
    assert "what joint was trained with; some variants have their own" in told(facts, "examination")
    assert "settings of its own" not in told(comparison(), "setup")


def test_variants_are_what_differs_from_the_first_model_beside_its_method():
    first = default_settings()
    slow = first.model_copy(update={"train": first.train.model_copy(update={"num_iterations": 7})})
    found = {"joint": first, "naive": first.with_method("naive"), "joint@slow": slow}
    assert differences(found) == {"joint@slow": {"train.num_iterations": "7"}}
