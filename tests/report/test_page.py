"""The page as a file: whole, in order, escaped, and honest about what is not there."""

from __future__ import annotations

import re
from dataclasses import fields, replace

import pytest

from tests.support.outline import Outline, section
from tests.support.report_samples import HOSTILE, comparison, finding, night
from ulr.redact import redact
from ulr.report.facts import COMPARE, NIGHT, Facts, read_facts
from ulr.report.page import SECTIONS, page

BOTH = pytest.mark.parametrize("facts", [night(), comparison()], ids=[NIGHT, COMPARE])


@BOTH
def test_the_same_facts_give_the_same_bytes_also_after_they_were_kept(facts):
    assert page(facts) == page(read_facts(facts.to_json()))
    assert len(page(facts).encode()) < 2_000_000


@BOTH
def test_sections_come_in_their_order_and_none_is_missing(facts):
    outline = Outline(page(facts))
    assert [e["id"] for e in outline.find("section")] == [key for key, _, _ in SECTIONS]
    assert not [e for e in outline.all if e.get("class") == "missing"]
    assert len(outline.find("h1")) == 1


@BOTH
def test_every_figure_has_words_for_those_who_do_not_see_it_and_a_table_behind_it(facts):
    outline = Outline(page(facts))
    figures = outline.find("figure")
    assert len(figures) >= 7
    for one in figures:
        drawings = outline.find("svg", one)
        assert len(drawings) == 2
        for drawing in drawings:
            assert drawing["role"] == "img"
            assert len(drawing["aria-label"]) > 20
        rows = outline.find("tr", outline.find("details", one)[0])
        assert len(rows) > 1


@BOTH
def test_nothing_comes_from_outside(facts):
    text = page(facts)
    outline = Outline(text)
    for one in outline.all:
        for name in ("src", "href", "action", "srcset", "data"):
            assert one.get(name, "#").startswith(("#", "data:,"))
    assert "url(" not in text
    assert "@import" not in text
    assert not re.findall(r"https?://", text)
    policy = next(e for e in outline.find("meta") if "http-equiv" in e)["content"]
    assert policy.startswith("default-src 'none'")


def hostile(facts: Facts) -> Facts:
    """Every text of the facts that can come from a log, a server or a user."""
    found = {
        "name": HOSTILE,
        "methods": [HOSTILE],
        "judged": HOSTILE,
        "stages": [
            s | {"message": HOSTILE, "stage": HOSTILE, "status": "failed"} for s in facts.stages
        ],
        "verdict": facts.verdict and facts.verdict | {"reasons": [HOSTILE], "against": [HOSTILE]},
        "metrics": [
            m | {"subject": HOSTILE} if m["subject"] == "joint" else m for m in facts.metrics
        ],
        "curve": [r | {"segment": r["segment"] and HOSTILE, "note": HOSTILE} for r in facts.curve],
        "diagnostics": [
            finding(HOSTILE, HOSTILE, "warning", HOSTILE, segment=HOSTILE),
            *facts.diagnostics,
        ],
        "weights": {HOSTILE: facts.weights["joint"]},
        "trainings": {HOSTILE: facts.trainings["joint"] | {"failures": [HOSTILE]}},
        "days": [*facts.days, facts.days[-1] | {"date": HOSTILE, f"bad:{HOSTILE}": 1}],
        "settings": {HOSTILE: HOSTILE},
        "changed": [HOSTILE],
        "variants": {HOSTILE: {HOSTILE: HOSTILE}},
        "versions": {HOSTILE: HOSTILE},
    }
    return replace(facts, **{k: v for k, v in found.items() if v is not None})


@BOTH
def test_text_from_a_log_is_text_wherever_it_stands(facts):
    outline = Outline(page(hostile(facts)))  # also checks that every element is closed
    assert len(outline.find("script")) == 1
    assert not outline.find("img")
    assert not [e for e in outline.all for name in e if name.startswith("on")]
    code = [e["text"] for e in outline.find("code", section(outline, "data"))]
    assert any("<script>alert('x')</script>" in text for text in code)
    assert "\u202e" not in page(hostile(facts))
    assert not [e for e in outline.all if e.get("class") == "missing"]


PARTS = {"contest": ["metrics"], "examination": ["curve"], "browsing": ["joint"],
         "diagnostics": ["diagnostics"], "weights": ["weights"], "learning": ["trainings"],
         "positions": ["metrics"], "data": ["days"], "setup": ["settings"]}  # fmt: skip


@pytest.mark.parametrize("key", PARTS)
def test_a_part_that_is_missing_is_told_in_its_section_and_nowhere_else(key):
    empty = {name: type(getattr(night(), name))() for name in PARTS[key]}
    why = dict.fromkeys(PARTS[key], "The stage failed: no such file")
    outline = Outline(page(replace(night(), **empty, missing=why)))
    said = {e["id"]: [m["text"] for m in outline.find("p", e) if m.get("class") == "missing"]
            for e in outline.find("section")}  # fmt: skip
    assert said[key] == ["The stage failed: no such file"]
    same = {k for k, parts in PARTS.items() if set(parts) & set(PARTS[key])}
    assert {k for k, words in said.items() if words} == same


def test_a_night_of_which_nothing_is_known_is_still_a_page():
    outline = Outline(page(Facts(kind=NIGHT, name="2026-01-03")))
    told = [e for e in outline.find("p") if e.get("class") == "missing"]
    assert len(told) == len(SECTIONS)


def test_a_table_that_is_not_what_it_should_be_costs_one_section():
    outline = Outline(page(replace(night(), curve=[{"segment": None}])))
    bad = [e["id"] for e in outline.find("section") if any(
        p.get("class") == "missing" for p in outline.find("p", e))]  # fmt: skip
    assert "examination" in bad
    assert "contest" not in bad


def test_a_page_of_very_much_stays_small_and_says_what_it_leaves_out():
    facts, deep = night(), range(1, 51)
    segments = [None, *(f"segment {n}" for n in range(12))]
    pair, point, check = facts.joint[0], facts.curve[0], facts.diagnostics[1]
    one = facts.trainings["joint"]
    large = replace(
        facts,
        joint=[pair | {"segment": s, "k": k, "l": v, "note": "from independent; too few co-clicks"}
               for s in segments for k in deep for v in range(k + 1, 51)],
        curve=[point | {"segment": s, "position": k, "theta": 1 / k}
               for s in segments for k in deep],
        diagnostics=[check | {"segment": s, "subject": f"{n}"}
                     for s in segments for n in range(900)],
        truth=[{"segment": s, "k": k, "l": v, "psi": 1 / v}
               for s in segments for k in deep for v in range(k, 51)],
        trainings={f"joint@{n}": one for n in range(30)},
        weights={f"joint@{n}": facts.weights["joint"] for n in range(30)},
        days=[facts.days[0]] * 400,
    )  # fmt: skip
    text = page(large)
    assert len(text.encode()) < 2_000_000
    outline = Outline(text)
    assert not [e for e in outline.all if e.get("class") == "missing"]
    told = " ".join(e["text"] for e in outline.find("p") if e.get("class") == "soft")
    for words in ("10 more segments are in", "7 more segments are in",
                  "pairs are below position 20", f"{13 * 900 - 300:,} more findings",
                  "18 more trainings"):  # fmt: skip
        assert words in told


def test_facts_of_a_later_version_are_read_without_what_is_new():
    content = night().to_json() | {"added_later": 1}
    assert read_facts(content) == night()
    assert {f.name for f in fields(Facts)} <= content.keys()


def test_no_password_is_on_the_page():
    found = redact({
        "mlflow.tracking_uri": "https://me:open@host/x",
        "warehouse.path": "s3://key:open@bucket/w?region=eu&secret_key=open",
        "spark.hadoop.fs.s3a.secret.key": "open",
        "pairs.method": "joint",
    })  # fmt: skip
    assert not [v for v in found.values() if "open" in v]
    assert found["warehouse.path"] == "s3://***@bucket/w?region=eu&secret_key=***"
    assert found["pairs.method"] == "joint"
