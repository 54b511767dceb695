"""The page as a file: complete, in order, escaped, and explicit about missing parts."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from dataclasses import fields, replace
from pathlib import Path

import pytest

from tests.support.outline import Outline
from tests.support.report_samples import HOSTILE, comparison, finding, night
from ulr.redact import redact
from ulr.report.facts import COMPARE, NIGHT, Facts, read_facts
from ulr.report.page import page, sections_of

ROOT = Path(__file__).parents[2]
BOTH = pytest.mark.parametrize("facts", [night(), comparison()], ids=[NIGHT, COMPARE])


@BOTH
def test_the_same_facts_give_the_same_bytes_before_and_after_storing_them(facts):
    assert page(facts) == page(read_facts(facts.to_json()))
    assert len(page(facts).encode()) < 2_000_000


@BOTH
def test_every_section_is_there_in_order(facts):
    outline = Outline(facts)
    keys = [section.key for section in sections_of(facts.kind)]
    assert [e["id"] for e in outline.find("section")] == keys
    assert [e["href"] for e in outline.find("a")] == [f"#{key}" for key in keys]
    assert not outline.missing
    assert len(outline.find("h1")) == 1


@BOTH
def test_every_figure_has_a_description_and_a_data_table(facts):
    outline = Outline(facts)
    figures = outline.find("figure")
    assert len(figures) >= 7
    for figure in figures:
        charts = outline.find("svg", figure)
        assert len(charts) == 2
        for chart in charts:
            assert chart["role"] == "img"
            assert len(chart["aria-label"]) > 20
        rows = outline.find("tr", outline.find("details", figure)[0])
        assert len(rows) > 1


@BOTH
def test_the_page_loads_nothing(facts):
    text = page(facts)
    outline = Outline(text)
    for element in outline.all:
        for name in ("src", "href", "action", "srcset", "data"):
            assert element.get(name, "#").startswith(("#", "data:,"))
    assert "url(" not in text
    assert "@import" not in text
    assert not re.findall(r"https?://", text)
    policy = next(e for e in outline.find("meta") if "http-equiv" in e)["content"]
    assert policy.startswith("default-src 'none'")


def hostile(facts: Facts) -> Facts:
    """Return the facts with markup in every text that a log, a server or a user can supply."""
    changes = {
        "name": HOSTILE,
        "methods": [HOSTILE],
        "evaluated_on": HOSTILE,
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
    return replace(facts, **{k: v for k, v in changes.items() if v is not None})


@BOTH
def test_markup_in_a_log_stays_text(facts):
    outline = Outline(hostile(facts))  # also checks that elements are nested properly
    assert len(outline.find("script")) == 1
    assert not outline.find("img")
    assert not [e for e in outline.all for name in e if name.startswith("on")]
    code = [e["text"] for e in outline.find("code", outline.section("data"))]
    assert any("<script>alert('x')</script>" in text for text in code)
    assert "\u202e" not in page(hostile(facts))
    assert not outline.missing


def test_a_message_that_is_a_template_stays_text():
    message = "{{ 7 * 7 }}{% raw %}"
    stages = [stage | {"message": message} for stage in night().stages]
    outline = Outline(replace(night(), stages=stages))
    assert message in outline.find("header")[0]["text"]


PARTS = {"contest": ["metrics"], "examination": ["curve"], "browsing": ["joint"],
         "diagnostics": ["diagnostics"], "weights": ["weights"], "learning": ["trainings"],
         "importance": ["trainings"],
         "positions": ["metrics"], "data": ["days"], "setup": ["settings"]}  # fmt: skip


@pytest.mark.parametrize("key", PARTS)
def test_the_reason_for_a_missing_part_is_in_its_sections_only(key):
    empty = {name: type(getattr(night(), name))() for name in PARTS[key]}
    reasons = dict.fromkeys(PARTS[key], "Stage x failed: no such file")
    outline = Outline(replace(night(), **empty, missing=reasons))
    shown = {section["id"]: [p["text"] for p in outline.find("p", section, "missing")]
             for section in outline.find("section")}  # fmt: skip
    assert shown[key] == ["Stage x failed: no such file"]
    same = {k for k, parts in PARTS.items() if set(parts) & set(PARTS[key])}
    assert {k for k, texts in shown.items() if texts} == same


def test_a_night_without_any_data_still_has_a_page():
    outline = Outline(Facts(kind=NIGHT, name="2026-01-03"))
    assert len(outline.missing) == len(sections_of(NIGHT))


def test_an_unexpected_table_affects_only_its_own_section():
    outline = Outline(replace(night(), curve=[{"segment": None}]))
    broken = [e["id"] for e in outline.find("section") if outline.find("p", e, "missing")]
    assert "examination" in broken
    assert "contest" not in broken


def test_a_page_of_many_rows_stays_small_and_says_what_it_leaves_out():
    facts, positions = night(), range(1, 51)
    segments = [None, *(f"segment {n}" for n in range(12))]
    pair, point, check = facts.joint[0], facts.curve[0], facts.diagnostics[1]
    training = facts.trainings["joint"]
    large = replace(
        facts,
        joint=[pair | {"segment": s, "k": k, "l": v, "note": "from independent; too few co-clicks"}
               for s in segments for k in positions for v in range(k + 1, 51)],
        curve=[point | {"segment": s, "position": k, "theta": 1 / k}
               for s in segments for k in positions],
        diagnostics=[check | {"segment": s, "subject": f"{n}"}
                     for s in segments for n in range(900)],
        truth=[{"segment": s, "k": k, "l": v, "psi": 1 / v}
               for s in segments for k in positions for v in range(k, 51)],
        trainings={f"joint@{n}": training for n in range(30)},
        weights={f"joint@{n}": facts.weights["joint"] for n in range(30)},
        days=[facts.days[0]] * 400,
    )  # fmt: skip
    text = page(large)
    assert len(text.encode()) < 2_000_000
    outline = Outline(text)
    assert not outline.missing
    left_out = " ".join(e["text"] for e in outline.find("p", css_class="soft"))
    for sentence in ("10 more segments are in", "7 more segments are in",
                     "more pairs below position 20 are in", f"{13 * 900 - 300:,} more findings",
                     "18 more trainings"):  # fmt: skip
        assert sentence in left_out


def test_facts_of_a_later_version_are_read_without_the_parts_it_added():
    content = night().to_json() | {"added_later": 1}
    assert read_facts(content) == night()
    assert {f.name for f in fields(Facts)} <= content.keys()


def test_no_password_is_on_the_page():
    settings = redact({
        "mlflow.tracking_uri": "https://me:open@host/x",
        "warehouse.path": "s3://key:open@bucket/w?region=eu&secret_key=open",
        "spark.hadoop.fs.s3a.secret.key": "open",
        "pairs.method": "joint",
    })  # fmt: skip
    assert not [v for v in settings.values() if "open" in v]
    assert settings["warehouse.path"] == "s3://***@bucket/w?region=eu&secret_key=***"
    assert settings["pairs.method"] == "joint"


def test_the_page_is_rendered_from_a_zip_of_the_package(tmp_path):
    archive = tmp_path / "ulr.zip"
    with zipfile.ZipFile(archive, "w") as target:
        for path in sorted((ROOT / "ulr").rglob("*")):
            if path.suffix in (".py", ".css", ".js", ".html"):
                target.write(path, path.relative_to(ROOT))
    program = (
        "import sys; from ulr.report import page; from ulr.report.facts import Facts; "
        "assert 'ulr.zip' in page.__file__; "
        "sys.stdout.write(page.page(Facts(kind='night', name='2026-01-03')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=os.environ | {"PYTHONPATH": str(archive)},
        cwd=tmp_path, capture_output=True, text=True, encoding="utf-8", check=True,
    )  # fmt: skip
    assert done.stdout == page(Facts(kind=NIGHT, name="2026-01-03"))
