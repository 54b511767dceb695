"""The page in Chromium: its layout on a phone and on a desktop, and sorting of tables."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.support.browser import evaluate, find_chromium
from tests.support.night_history import many_nights
from tests.support.report_samples import comparison, night
from ulr.report.nights.page import nights_page
from ulr.report.nights.rows import History, row_of
from ulr.report.page import page

CHROMIUM = find_chromium()
pytestmark = [
    pytest.mark.all,
    pytest.mark.skipif(
        CHROMIUM is None, reason="no chromium on the path (Debian: apt-get install chromium)"
    ),
]

LAYOUT = """
  for (const one of document.querySelectorAll("details")) one.open = true;
  const visible = (one) => one.getBoundingClientRect().width > 0;
  const inside = (one) => {
    const box = one.getBoundingClientRect();
    return box.left >= -1 && box.right <= frame.innerWidth + 1;
  };
  const overlaps = (a, b) => a.left < b.right - 2 && b.left < a.right - 2
    && a.top < b.bottom - 4 && b.top < a.bottom - 4;
  const collisions = [];
  for (const drawing of document.querySelectorAll("svg")) {
    const labels = [...drawing.querySelectorAll("text")].filter(visible);
    const boxes = labels.map((w) => w.getBoundingClientRect());
    boxes.forEach((a, n) => boxes.slice(n + 1).forEach((b, m) => {
      const both = [labels[n], labels[n + 1 + m]].map((w) => w.textContent);
      if (overlaps(a, b)) collisions.push(both.join(" / "));
    }));
  }
  const drawings = [...document.querySelectorAll("figure")].map((figure) =>
    [...figure.querySelectorAll("svg")].filter(visible));
  return {
    overflow: document.documentElement.scrollWidth - frame.innerWidth,
    drawings: drawings.map((shown) => shown.length),
    small: drawings.flat().filter((d) => d.getBoundingClientRect().height < 30).length,
    letters: Math.min(...drawings.flat().flatMap((d) => [...d.querySelectorAll("text")]
      .map((w) => w.getBoundingClientRect().height))),
    outside: [...document.querySelectorAll("svg text")].filter((w) => visible(w) && !inside(w))
      .map((w) => w.textContent),
    collisions: collisions,
  };
"""

SORT = """
  const table = [...document.querySelectorAll("#contest table")][0];
  const heading = [...table.tHead.rows[0].cells].find((c) => c.textContent === "difference");
  const n = heading.cellIndex;
  const read = () => [...table.tBodies[0].rows].map((r) => r.cells[n].textContent);
  const before = read();
  heading.click();
  const up = read();
  heading.dispatchEvent(new frame.KeyboardEvent("keydown", { key: " " }));
  return { before, up, down: read(), sort: heading.getAttribute("aria-sort") };
"""


SETTINGS = """
  const box = document.querySelector("#setup .scroll");
  const rows = [...box.querySelectorAll("tbody tr")];
  return rows.filter((r) => r.cells[1].getBoundingClientRect().right
    > box.getBoundingClientRect().right + 1).map((r) => r.textContent);
"""

DATE_LINES = """
  return [...document.querySelectorAll("#data dd .date")].map((d) => d.getClientRects().length);
"""


def nights(number: int) -> str:
    """Return the page over so many nights."""
    return nights_page(History([row_of(facts) for facts in many_nights(number)]))


PAGES = {"night": page(night()), "comparison": page(comparison()),
         **{f"{number} nights": nights(number) for number in (1, 7, 400)}}  # fmt: skip


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize("content", PAGES.values(), ids=PAGES.keys())
def test_the_page_fits_the_screen_and_draws_every_figure_without_overlapping_labels(content, width):
    layout, console = evaluate(CHROMIUM, content, width, LAYOUT)
    assert console == []
    assert layout["overflow"] <= 0
    assert set(layout["drawings"]) == {1}  # one of the two sizes is visible
    assert layout["small"] == 0
    assert layout["letters"] >= 11
    assert layout["outside"] == []
    assert layout["collisions"] == []


def test_the_browser_blocks_a_foreign_script_and_reports_it():
    foreign = page(night()).replace("</body>", "<script>document.title = 'x'</script></body>")
    title, console = evaluate(CHROMIUM, foreign, 1280, "return document.title;")
    assert title != "x"
    assert any("Content Security Policy" in line for line in console)


def test_a_click_on_a_heading_sorts_by_value_and_a_key_reverses_the_order():
    result, console = evaluate(CHROMIUM, page(night()), 1280, SORT)
    assert console == []

    def number(text):
        return float(text.replace("−", "-"))

    assert result["before"] != result["up"]
    assert result["up"] == sorted(result["before"], key=number)
    assert result["down"] == sorted(result["before"], key=number, reverse=True)
    assert result["sort"] == "descending"


def test_a_phone_shows_settings_and_their_values_side_by_side():
    settings = {"promote.min_effective_clicks": "1000.0", "warehouse.path": "data/warehouse"}
    facts = replace(night(), settings=settings, changed=list(settings))
    assert evaluate(CHROMIUM, page(facts), 390, SETTINGS) == ([], [])


@pytest.mark.parametrize("width", [390, 1280])
def test_a_date_stays_on_one_line(width):
    assert evaluate(CHROMIUM, page(night()), width, DATE_LINES) == ([1, 1], [])
