"""The page over all nights: complete, escaped, small for a year."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from tests.support.night_history import failed_facts, many_nights, name_of, night_facts
from tests.support.outline import Outline
from tests.support.report_samples import HOSTILE
from ulr.report.nights.page import nights_page
from ulr.report.nights.rows import History, NightRow, row_of, unreadable


def history(*facts, others=()):
    rows = [row_of(one) for one in facts]
    return History(rows, frozenset(row.date for row in rows), list(others))


def outline(*facts):
    return Outline(nights_page(history(*facts)))


@pytest.mark.parametrize("number", [1, 2, 7, 60, 61, 400])
def test_every_section_is_drawn_for_any_number_of_nights(number):
    page = outline(*many_nights(number))
    assert not page.missing
    assert len(page.find("section")) == 5
    assert len(page.find("svg")) == 2 * 5
    rows = page.find("tr", page.section("nights_table"))
    assert len(rows) == 1 + number


def test_the_page_of_a_year_is_small():
    assert len(nights_page(history(*many_nights(400))).encode()) < 800_000


def test_the_page_loads_nothing_and_links_to_pages_beside_it():
    text = nights_page(
        history(*many_nights(9), others=["rerun-a", "compare-2026-01-01..2026-01-02"])
    )
    page = Outline(text)
    assert not re.findall(r"https?://|url\(|@import", text)
    assert not [e for e in page.all if "src" in e]
    links = {e["href"] for e in page.find("a")}
    assert {"rerun-a.html", "compare-2026-01-01..2026-01-02.html", f"{name_of(8)}.html"} <= links
    assert all(re.fullmatch(r"#\w+|[\w.-]+\.html", link) for link in links)


def test_the_heading_names_the_champion_and_the_night_that_promoted_it():
    page = outline(night_facts(0, "promoted"), night_facts(1, "promoted", champion=1),
                   night_facts(2, "kept", champion=2), failed_facts(3))  # fmt: skip
    assert page.find("h1")[0]["text"] == (
        f"Version 2 is the champion, promoted by the night of {name_of(1)}."
    )
    assert "failed: groups: 5% of the rows are bad" in page.find("header")[0]["text"]
    assert outline(failed_facts(0)).find("h1")[0]["text"] == "There is no champion yet."
    assert outline(night_facts(5, "kept", champion=3)).find("h1")[0]["text"] == (
        "Version 3 is the champion."
    )


def test_dates_without_a_night_are_listed():
    page = outline(night_facts(0, "promoted"), night_facts(3, "kept", champion=1))
    text = page.find("header")[0]["text"]
    assert f"Dates without a night: {name_of(1)}, {name_of(2)}" in text


def test_promotions_kept_champions_and_failed_nights_have_marks_of_their_own():
    page = outline(night_facts(0, "promoted"), night_facts(1, "kept", champion=1), failed_facts(2),
                   night_facts(3, "kept", champion=1))  # fmt: skip
    section = page.section("nights_champion")
    assert len(page.find("circle", section, "mark strong")) == 2 * 1  # wide and narrow
    assert len(page.find("circle", section, "mark strong ring")) == 2 * 2
    assert len(page.find("path", section, "mark strong")) == 2 * 1
    assert "the night failed" in section["text"]


def test_a_change_of_the_champion_outside_of_the_nights_is_named():
    page = outline(night_facts(0, "promoted"), night_facts(1, "promoted", champion=1),
                   failed_facts(2), night_facts(3, "kept", champion=1))  # fmt: skip
    assert f"version 1 before the night of {name_of(3)}" in page.section("nights_champion")["text"]
    steady = outline(night_facts(0, "promoted"), night_facts(1, "kept", champion=1),
                     night_facts(2, "champion", champion=3))  # fmt: skip
    assert "outside of the nights" not in steady.section("nights_champion")["text"]


def test_nights_without_any_result_are_explained_section_by_section():
    page = outline(failed_facts(0), failed_facts(1))
    assert [e["text"] for e in page.missing] == [
        "No night has measured a champion yet.",
        "No night has estimated theta yet.",
        "No night has read its log yet.",
    ]
    assert len(Outline(nights_page(History([unreadable("2026-01-01")]))).missing) == 4


def test_markup_in_messages_and_names_stays_text():
    text = nights_page(history(failed_facts(0, HOSTILE), night_facts(1, "promoted"),
                               replace(night_facts(2, "promoted"), metric=HOSTILE)))  # fmt: skip
    page = Outline(text)
    assert len(page.find("script")) == 1
    assert not page.find("img")
    assert "\u202e" not in text


def test_a_night_with_gaps_in_every_value_is_drawn():
    rows = [NightRow("2026-01-01", "kept", champion=1, metric="snips_dcg",
                     values={"champion": [0.5, None, None]}, theta={"2": [0.4, None, None]}),
            NightRow("2026-02-01", "promoted", version=2, champion=2, metric="snips_dcg",
                     seconds={"groups": 0.0}, pages=0, read=0, quarantined=0)]  # fmt: skip
    assert not Outline(nights_page(History(rows))).missing
