"""The text and the numbers of the sections."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.outline import Outline, section_text, stored
from tests.support.report_samples import (
    DECIDES,
    comparison,
    curve,
    day,
    estimate,
    finding,
    joint,
    metrics,
    night,
    training,
    weights,
)
from ulr.config.load import default_settings
from ulr.report.collect import differences
from ulr.report.facts import Facts
from ulr.report.format import interval
from ulr.report.metrics import metric_name, metrics_of
from ulr.report.sections.verdict import sentence


def heading(facts: Facts) -> str:
    return Outline(facts).find("h1")[0]["text"]


def test_the_verdict_is_one_sentence_with_reasons():
    outline = Outline(night())
    assert (
        outline.find("h1")[0]["text"]
        == "Version 3, trained with joint, was not promoted; version 2 remains champion."
    )
    reasons = [
        (e["class"], e["text"]) for e in outline.find("li") if e.get("class") in ("for", "against")
    ]
    assert [kind for kind, _ in reasons] == ["for", "against"]
    assert "bucket 1:5" in reasons[1][1]


def test_the_learned_examination_of_dla_is_drawn():
    without = section_text(night(), "learning")
    assert "Biases are learned only by" in without
    trainings = {"joint": training(position_bias=[1.0, 0.512, 0.25])}
    text = section_text(replace(night(), trainings=trainings), "learning")
    assert "Biases are learned only by" not in text
    assert "0.512" in text
    assert "relative to position 1" in text


def test_the_choice_of_method_auto_is_shown_with_its_trials():
    trials = [
        {"method": "joint", "num_leaves": 7, "trees": 50, "loss": 9.5, "scale": 1.2,
         "difference": 0.0, "standard_error": 0.0},
        {"method": "pns", "num_leaves": 7, "trees": 50, "loss": 9.75, "scale": 0.9,
         "difference": 0.5, "standard_error": 0.125},
    ]  # fmt: skip
    choice = {"candidate": 0, "method": "joint", "num_leaves": 7, "trials": trials,
              "reason": "no candidate is significantly better"}  # fmt: skip
    few = "the held-out clicks are worth 9.0 queries"
    trainings = {"auto": training(choice=choice, warnings=[few])}
    text = section_text(replace(night(), trainings=trainings), "learning")
    assert "joint, 7 leaves (no candidate is significantly better)" in " ".join(text.split())
    assert "9.750" in text
    assert "0.1250" in text
    assert f"Warning: {few}" in " ".join(text.split())
    none = training(choice=choice | {"trials": []})
    assert "difference" not in section_text(replace(night(), trainings={"auto": none}), "learning")


def test_a_comparison_names_the_best_method_and_differences_that_are_not_significant():
    facts = comparison()
    assert "The best of 3 methods is joint: NDCG@1 0.8075" in heading(facts)  # 0.85 - 0.85 / 20
    # from naive, three twentieths below labels, joint is two thirds of the way to labels
    assert "67% of the way from naive clicks to golden labels" in heading(facts)
    worse_labels = [m | {"value": 0.1} if m["subject"] == "labels" else m for m in facts.metrics]
    assert "of the way" not in heading(replace(facts, metrics=worse_labels))  # no upper bound
    rows = [
        m | {"p_value": 0.4} if m["against"] == "unbiased-lambdamart" else m for m in facts.metrics
    ]
    reasons = [
        e["text"] for e in Outline(replace(facts, metrics=rows)).find("li", css_class="note")
    ]
    assert reasons == ["better than unbiased-lambdamart by 0.0400, p = 0.4: not significant"]


def test_the_page_of_a_night_is_about_its_model_and_not_about_the_first_name_of_the_alphabet():
    half = [row | {"value": row["value"] / 2} for row in weights()]
    facts = stored(replace(
        night(), methods=["robust", "naive"], weights={"robust": weights(), "naive": half},
        trainings={"robust": training(queries=1500), "naive": training(queries=7)},
    ))  # fmt: skip
    outline = Outline(facts)
    text = outline.section("weights")["text"]
    assert "The training data of robust have 4,000 clicks in pairs; 2,500 effective clicks" in text
    assert [e["text"] for e in outline.find("h3", outline.section("learning"))] == [
        "robust", "naive"]  # fmt: skip
    assert "1,500" in [e["text"] for e in outline.find("dd", outline.section("data"))]


def test_a_comparison_draws_the_best_method_first_and_counts_the_models_not_drawn():
    names = ("naive", "robust", "prs", "unbiased-lambdamart", "labels")
    rows = [*metrics("joint", *names), estimate("labels", "ndcg_at_1", 0.99)]
    facts = stored(replace(comparison(), methods=[*names[:4], "joint", "labels"], metrics=rows,
                           weights={name: weights() for name in (*names, "joint")}))  # fmt: skip
    outline = Outline(facts)
    assert "The training data of joint" in outline.section("weights")["text"]
    chart = outline.find("svg", outline.section("positions"))[0]
    (strong,) = outline.find("text", chart, "name strong")
    assert strong["text"] == "joint"
    assert "4 of 6 models are drawn" in outline.section("positions")["text"]


def without_values(facts: Facts, *subjects: str) -> Facts:
    """Return the facts as if the evaluation queries of these rankings had no clicks."""
    empty = dict.fromkeys(("value", "standard_error", "lower", "upper", "p_value"))
    rows = [m | empty if m["subject"] in subjects else m for m in facts.metrics]
    return replace(facts, metrics=rows)


def test_a_metric_without_a_value_is_left_out_and_named():
    outline = Outline(without_values(comparison(), "naive"))
    assert not outline.missing
    assert "Without a value of NDCG@1: naive." in outline.section("methods")["text"]
    nothing = without_values(comparison(), *comparison().methods)
    assert heading(nothing) == "No method could be evaluated: NDCG@1 has no value."
    (missing,) = Outline(without_values(night(), "champion")).missing
    assert missing["text"].startswith("The difference from champion is unknown")


@pytest.mark.parametrize(
    ("verdict", "reason"),
    [
        (None, "the night ended before the comparison with the champion"),
        ({"outcome": "champion", "champion": 3}, "this model is already the champion"),
        ({"outcome": "kept", "champion": 2}, "the champion could not rank these pages"),
        ({"outcome": "promoted", "champion": None}, "there was no champion yet"),
    ],
)
def test_a_night_without_a_champion_to_compare_with_says_why(verdict, reason):
    changed = verdict and night().verdict | verdict
    facts = replace(night(), verdict=changed, metrics=metrics("joint", "logging"))
    text = section_text(facts, "contest")
    assert f"compared with the production ranking, because {reason}, on 424 held-out" in text


def test_alarms_come_first_and_say_what_to_do():
    outline = Outline(night())
    items = outline.find("li", outline.section("diagnostics"))
    assert [e["class"] for e in items] == ["warning", "warning", "ok", "ok"]
    assert all("What to do:" in e["text"] for e in items[:2])
    assert "pairs.method=affine" in items[1]["text"]
    assert all(e["text"].endswith("Nothing to do.") for e in items[2:])


def test_a_note_is_shown_with_advice_and_is_no_alarm():
    note = finding("harvest_days", "theta", "note", "theta is k^-0.34 times theta within days")
    facts = replace(night(), diagnostics=[note, finding("agreement", "buckets")])
    text = section_text(facts, "diagnostics")
    assert "None of the 2 checks" in text
    assert "i note" in text
    assert "Run a swap experiment" in text


def test_the_map_distinguishes_estimated_from_imputed_pairs_and_has_the_truth_below_the_diagonal():
    outline = Outline(night())
    chart = outline.find("svg", outline.section("browsing"))[0]
    kinds = [e["class"].split()[1] for e in outline.find("rect", chart) if "cell" in e["class"]]
    pairs = [k * v for k in range(1, 11) for v in range(k + 1, 11)]
    assert kinds.count("estimated") == sum(p < 13 for p in pairs)
    assert kinds.count("imputed") == sum(p >= 13 for p in pairs)
    assert kinds.count("truth") == len(pairs)
    assert kinds.count("theta") == 10


def test_every_kind_of_pair_and_line_has_a_style():
    outline = Outline(night())
    style = outline.find("style")[0]["text"]
    for kind in (".cell.estimated", ".cell.insufficient", ".cell.truth", ".curve.strong",
                 ".curve.faint", "path.mark", ".band.strong", ".bar", ".reach.strong"):  # fmt: skip
        assert f"svg {kind} {{" in style


def test_given_values_are_not_called_estimates():
    given = [row | {"source": "given", "estimator": "given"} for row in curve()]
    text = section_text(replace(night(), curve=given), "examination")
    assert "The values are those of the setting propensities.given" in text
    assert not [part for part in ("Estimated with", "95% interval", "inside") if part in text]


def test_a_segment_lists_the_positions_that_use_the_estimate_over_all_traffic():
    seventh = ("mobile", 7)
    sparse = [row | {"source": "pooled"} if (row["segment"], row["position"]) == seventh else row
              for row in curve()]  # fmt: skip
    sentence = "so the value follows from all traffic: position 7."
    assert section_text(replace(night(), curve=sparse), "examination").count(sentence) == 1
    assert sentence not in section_text(night(), "examination")


def test_levels_of_feedback_have_curves_counts_and_what_their_comparison_found():
    rows = []
    for level, (event, events) in enumerate({"click": 900, "cart": 80, "gift": 2}.items(), 1):
        for row in (row for row in curve() if row["segment"] is None):
            own = row | {"level": level, "event": event, "events": events}
            if event == "gift":
                own |= dict.fromkeys(("theta", "standard_error", "lower", "upper"))
            rows.append(own)
    message = "cart or higher against click or higher: 9 positions compared"
    facts = replace(night(), levels=rows)
    assert "Levels of feedback" not in section_text(night(), "examination")
    for verdict, said in (("note", "They differ: "), ("ok", "They agree within their errors")):
        checks = [*night().diagnostics, finding("levels", "cart", verdict, message)]
        text = section_text(replace(facts, diagnostics=checks), "examination")
        assert said in text
        assert message in text
        assert "click 900, cart 80, gift 2" in text
        assert "Without a curve: gift" in text


@pytest.mark.parametrize(
    ("setting", "fitted", "reason"),
    [
        ("auto", True, "that fits the co-clicks best (independent)"),
        ("auto", False, "that is the default (independent)"),
        ("independent", True, "that propensities.browsing_model selects (independent)"),
    ],
)
def test_the_page_says_why_the_browsing_model_was_chosen(setting, fitted, reason):
    facts = replace(night(), settings=night().settings | {"propensities.browsing_model": setting})
    if not fitted:
        facts = replace(facts, diagnostics=[])
    text = section_text(facts, "browsing")
    assert reason in text
    compared = setting == "auto" and fitted
    assert ("The browsing models were not compared" in text) == (not compared)


def test_the_caption_of_the_map_names_only_the_kinds_of_pairs_on_it():
    imputed = [row | {"source": "imputed"} for row in joint()]
    text = section_text(replace(night(), joint=imputed), "browsing")
    assert "All pairs are imputed." in text
    assert "Outlined" not in text
    estimated = [row | {"source": "estimated"} for row in joint()]
    text = section_text(replace(night(), joint=estimated), "browsing")
    assert "Outlined pairs are estimated." in text
    assert "imputed" not in text


def test_the_held_out_day_is_not_among_the_training_days():
    def eyebrow(facts):
        return Outline(facts).find("p", css_class="eyebrow")[0]["text"]

    facts = replace(night(), settings=night().settings | {"evaluate.holdout": "time"})
    assert "trained on 2 days, 2026-01-01 to 2026-01-02" in eyebrow(facts)
    assert "trained on 3 days, 2026-01-01 to 2026-01-03" in eyebrow(night())
    assert "a window of 3 days" in eyebrow(replace(night(), trainings={}))


def test_a_figure_that_leaves_something_out_says_so():
    many = replace(night(), days=[day(f"day {n}") for n in range(40)])
    assert "The last 31 of 40 days are drawn" in section_text(many, "data")
    deep = [{"position": k, "name": name, "value": 9.0} for k in (None, *range(1, 31))
            for name in ("effective_pairs", "weight")]  # fmt: skip
    text = section_text(replace(night(), weights={"joint": deep}), "weights")
    assert "The table has all 30 positions" in text


def test_a_small_effective_number_of_clicks_comes_with_advice():
    few = [row | {"value": row["value"] / 100} for row in weights()]
    text = section_text(replace(night(), weights={"joint": few}), "weights")
    assert "40 clicks in pairs; 25 effective clicks (below the minimum of 1,000 for" in text
    assert "and 2 effective queries." in text
    assert "What to do:" in text
    assert "What to do:" not in section_text(night(), "weights")


def test_an_undecided_night_is_in_the_heading():
    facts = night()
    undecided = replace(facts, verdict=facts.verdict | {"undecided": ["the interval is wide"]})
    assert "too few to decide: promote.undecided = estimate" in sentence(undecided)
    assert "too few" not in sentence(facts)


def test_lists_by_query_are_advised_if_rankings_hardly_repeat():
    by_ranking = night().settings | {"pairs.grouping": "ranking"}
    advised = "pairs.grouping=query"
    days = [day("2026-01-01") | {"pages": 1400, "groups": 1000}]
    sparse = replace(night(), settings=by_ranking, days=days)
    text = section_text(sparse, "data")
    assert "A ranking was shown 1.4 times a day on average" in text
    assert advised in text
    often = [days[0] | {"groups": 500}]
    assert advised not in section_text(replace(sparse, days=often), "data")
    by_query = by_ranking | {"pairs.grouping": "query"}
    assert advised not in section_text(replace(sparse, settings=by_query), "data")


def test_metrics_have_readable_names_in_one_order_for_any_cutoff():
    names = ["zeta", "ndcg_at_20", "ndcg_at_3", "ips_precision_at_2", DECIDES]
    facts = replace(night(), metrics=[estimate("joint", name, 0.5) for name in names])
    assert [metric_name(name) for name in metrics_of(facts, "joint")] == [
        "SNIPS DCG", "IPS precision@2", "NDCG@3", "NDCG@20", "zeta"]  # fmt: skip


def test_a_missing_estimate_has_no_interval_and_an_unknown_bound_is_unbounded():
    rows = Outline(night()).find("tr")
    assert [r["text"] for r in rows if r["text"].startswith("10––")]  # mobile's last position
    assert interval(None, 0.5).text == "unbounded"


def test_variants_are_listed_with_their_settings_and_the_examination_with_its_model():
    variants = {"joint@flat": {"propensities.monotone": "True", "train.num_iterations": "9"}}
    facts = replace(comparison(), methods=["joint", "joint@flat"], variants=variants)
    text = section_text(facts, "setup")
    assert "joint@flatpropensities.monotoneTrue" in text
    assert "joint@flattrain.num_iterations9" in text
    sentence = "the values that joint was trained with; some variants have other values"
    assert sentence in section_text(facts, "examination")
    assert "Settings of the variants" not in section_text(comparison(), "setup")


def test_variants_are_the_settings_that_differ_from_the_first_models_without_the_method():
    first = default_settings()
    slow = first.model_copy(update={"train": first.train.model_copy(update={"num_iterations": 7})})
    models = {"joint": first, "naive": first.with_method("naive"), "joint@slow": slow}
    assert differences(models) == {"joint@slow": {"train.num_iterations": "7"}}


def test_imputed_positions_are_rings_and_named_in_the_text():
    assert "imputed" not in section_text(night(), "examination")
    assert not [c for c in Outline(night()).find("circle") if "ring" in c["class"]]
    rows = [
        row | {"source": "imputed", "note": "log theta = -1.00 log k - 0.000 (k - 1)"}
        if row["segment"] is None and row["position"] > 7 else row
        for row in curve()
    ]  # fmt: skip
    message = "theta of 3 positions is imputed, 8-10: fitted to 2-7"
    facts = replace(night(), curve=rows, diagnostics=[finding("depth", "all", message=message)])
    text = section_text(facts, "examination")
    assert f"Of all traffic, {message}." in text
    assert "3 of 30 values are imputed" in text
    assert "click metrics use imputed values" in text
    assert "Rings are imputed positions." in text
    rings = [c for c in Outline(facts).find("circle") if "ring" in c["class"]]
    assert len(rings) == 2 * 3  # a wide and a narrow chart


def test_the_assumption_about_position_1_is_stated_under_its_check():
    note = "position 1 is assumed to be always examined"
    rows = [
        finding("joint", "all", message="of 5 pairs"),
        finding("joint", "theta(1)", message=note),
    ]
    text = section_text(replace(night(), diagnostics=rows), "diagnostics")
    assert "Of 5 pairs. Position 1 is assumed to be always examined." in text
